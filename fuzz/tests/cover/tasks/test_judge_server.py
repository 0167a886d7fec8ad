"""A judge that stays answers as the command does, and nothing of a request is there for the next one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fuzz.tasks.judge.asked import Asked, JudgeRequest, decoded
from fuzz.tests.common.running import KERNELFUZZ, Running, become, eventually, until_ended
from fuzz.tests.conftest import Cli
from oracles.tests.common.whole import WHOLE

_REFERENCE = "def halved(x):\n    return x / 2\n"
_RIGHT = "import numpy as np\n\ndef kernel(x):\n    return x * np.float32(0.5)\n"
_HANGS = "import numpy as np\n\ndef kernel(x):\n    open('CALLED', 'w')\n    while True:\n        pass\n"
_WORDS = ("--against", "ref.py", "--shapes", "x=n", "--seed", "1", "--max-cases", "8")


class _Forked(subprocess.Popen[bytes]):
    """A desk that is forked from here: to import torch anew takes seconds."""

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        if "--desk" in words:
            options["preexec_fn"] = partial(become, words[4:], options["env"], [int(words[-1])])
        super().__init__(words, **options)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server on `judge.sock`, which judges one at a time."""
    monkeypatch.setattr(subprocess, "Popen", _Forked)
    (tmp_path / "ref.py").write_text(_REFERENCE)
    (tmp_path / "right.py").write_text(_RIGHT)
    (tmp_path / "wrong.py").write_text(_RIGHT.replace("0.5", "0.51"))
    with Running([*KERNELFUZZ, "judge", "--serve", "judge.sock", "-j", "1"], tmp_path) as run:
        eventually((tmp_path / "judge.sock").is_socket)
        yield run
        run.terminate()
        run.ended()
    assert not (tmp_path / "judge.sock").exists()


def _below(pid: int) -> list[int]:
    return [each for child in _children(pid) for each in (child, *_below(child))]


def _children(pid: int) -> list[int]:
    return [
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]


def test_a_served_ruling_is_that_of_the_command_also_once_the_reference_has_changed(
    server: Running, cli: Cli, tmp_path: Path
) -> None:
    files = ("right.py", "wrong.py") if WHOLE else ("wrong.py",)
    words = ("judge", *files, *_WORDS, "--json", "--no-shrink")
    cold, served = cli(*words), cli(*words, "--server", "judge.sock")
    assert (served.returncode, served.stdout, served.stderr) == (cold.returncode, cold.stdout, cold.stderr)
    assert [each["verdict"] for each in json.loads(cold.stdout)["solutions"]] == [each[:-3] for each in files]
    (tmp_path / "ref.py").write_text(_REFERENCE.replace("/ 2", "* 0.51"))
    again = cli("judge", "wrong.py", *_WORDS, "--json", "--server", "judge.sock")
    assert json.loads(again.stdout)["verdict"] == "right"


def test_who_hangs_up_ends_what_was_begun_and_who_waits_has_a_turn(server: Running, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(_HANGS.replace("CALLED", str(tmp_path / "called")))
    asked = ("judge", "hangs.py", *_WORDS, "--trusted", "--case-limit", "1000s", "--server", "judge.sock")
    with Running([*KERNELFUZZ, *asked], tmp_path) as first:
        eventually((tmp_path / "called").exists)
        [desk] = _children(server.pid)
        begun = _below(desk)
        assert begun
        with Running([*KERNELFUZZ, *asked], tmp_path) as second:  # it waits, and goes
            second.terminate()
            second.ended()
        first.terminate()
        first.ended()
    assert cli("judge", "right.py", *_WORDS, "--server", "judge.sock").returncode == 0
    until_ended(*begun)


def test_a_limit_of_time_is_kept_by_a_reference_that_never_ends_too(server: Running, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(f"import time\n{_REFERENCE}\ntime.sleep(3600)\n")
    done = cli("judge", "right.py", *_WORDS, "--json", "--max-time", "1s", "--server", "judge.sock")
    ruling = json.loads(done.stdout)
    assert (done.returncode, ruling["verdict"], ruling["cases"]) == (11, "undecided", 0)
    assert ruling["solutions"][0]["reason"].endswith(", as --max-time 1s was over: any case")


def test_what_cannot_be_served_is_told_in_one_line(server: Running, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = {
        "judge.sock": "a server answers there already", "file": "it is there already, and no socket",
        "nowhere/judge.sock": "No such file or directory", "n" * 101: "a socket's name has at most 100 bytes",
    }  # fmt: skip
    for name, said in told.items():
        done = cli("judge", "--serve", name)
        assert (done.returncode, done.stderr) == (4, f"kernelfuzz: --serve {name}: {said}\n")
    done = cli("judge", "right.py", *_WORDS, "--server", "nowhere.sock")
    assert done.stderr == "kernelfuzz: --server nowhere.sock: no server answers there: No such file or directory\n"
    assert _answer(tmp_path, b"{}", [1, 2]).startswith(b"refused the server cannot read the request: ")
    asked = Asked(("right.py",), "ref.py", None, "finite", 1, 8, 8, tmp_path, False, (), None, None)
    other = JudgeRequest(asked, json=False, verbose=False, version="0.1").encoded()
    assert _answer(tmp_path, other, [1, 2]).startswith(b"refused the server is of version ")
    request = JudgeRequest(asked, json=False, verbose=False).encoded()
    assert _answer(tmp_path, request, []) == b"refused the server got no stdout and stderr to answer on"
    mode = (tmp_path / "judge.sock").stat().st_mode
    assert not mode & 0o077, "nobody else may have programs run in our name"


def _answer(folder: Path, message: bytes, descriptors: list[int]) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(str(folder / "judge.sock"))
        socket.send_fds(asking, [message], descriptors)
        return asking.recv(1 << 16)


def test_a_request_comes_as_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_TEXT", os.fsdecode(b"\xff"))
    asked = Asked(("a.py", "b.py"), "ref.py", "x=n", "any", None, 8, 8, tmp_path, True, ("*",), 2.0, None, max_time=3.0)
    request = JudgeRequest(asked, json=True, verbose=False)
    assert decoded(request.encoded()) == request
    assert "NO_TEXT" not in request.environment
