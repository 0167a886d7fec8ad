"""What workers are forked from begins before a problem is read: the same that they are forked from afterwards."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.core.adapters.python_kernel import FRAMEWORKS
from fuzz.core.adapters.python_program import imports_of
from fuzz.core.transport.fork_server import ForkServer, fork_server
from fuzz.tasks.readers.source import framework_in, name_in
from fuzz.tests.conftest import Cli

_REFERENCE = "def halved(x):\n    return x / 2\n"
_MINE = "import numpy as np\n\ndef kernel(x):\n    return x * np.float32(0.5)\n"


@pytest.fixture(autouse=True)
def _own_servers() -> Iterator[None]:
    fork_server.cache_clear()
    yield
    fork_server.cache_clear()


@pytest.mark.whole
@pytest.mark.parametrize("options", [(), ("--trusted",)])
def test_a_server_begins_before_the_problem_is_read_and_is_the_one_that_is_used(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    began = list[bool]()
    begin = ForkServer.begin

    def noted(self: ForkServer) -> None:
        began.append((tmp_path / "read").exists())
        begin(self)

    monkeypatch.setattr(ForkServer, "begin", noted)
    (tmp_path / "ref.py").write_text(f"from pathlib import Path\n\nPath('read').touch()\n\n\n{_REFERENCE}")
    (tmp_path / "mine.py").write_text(_MINE)
    done = cli_here("judge", "mine.py", "--against", "ref.py", "--seed", "1", "--max-cases", "1", *options)
    assert done.returncode == 0, done.stderr
    assert began[0] is False
    assert fork_server.cache_info().currsize == 1


def test_where_the_problem_cannot_be_read_no_folder_is_left(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(f"{_REFERENCE}\n\nimport nowhere_at_all\n")
    (tmp_path / "mine.py").write_text(_MINE)
    done = cli_here("judge", "mine.py", "--against", "ref.py", "--seed", "1", "--trusted")
    assert (done.returncode, (tmp_path / "judged").exists()) == (4, False), done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine.c", "mine.c: a kernel in C or C++ is declared in a pack: see fuzz/docs/judging.md"),
        ("nowhere.py", "nowhere.py: No such file or directory"),
        ("bad.py", "bad.py: it is no Python: '(' was never closed, line 1"),
    ],
)
def test_what_is_no_solution_is_told_before_the_problem_is_run(
    cli_here: Cli, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "ref.py").write_text(f"from pathlib import Path\n\nPath('read').touch()\n\n\n{_REFERENCE}")
    (tmp_path / "mine.c").write_text("int kernel(void) { return 0; }\n")
    (tmp_path / "bad.py").write_text("def kernel(x:\n")
    done = cli_here("judge", name, "--against", "ref.py", "--trusted")
    assert (done.returncode, done.stderr.strip()) == (4, f"kernelfuzz: {said}")
    assert not (tmp_path / "read").exists()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("import torch\n\ndef halved(x):\n    return x / 2\n", "ref.py: "),
        ("import torch\n\nclass Model: ...\n\ndef get_inputs(): ...\n", "ref.py: "),
        (_REFERENCE, "halved: it is read with torch: "),
    ],
)
def test_a_missing_torch_is_told_with_the_command_that_installs_it(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as Python marks what is not to be found
    (tmp_path / "ref.py").write_text(reference)
    (tmp_path / "mine.py").write_text(_MINE)
    done = cli_here("judge", "mine.py", "--against", "ref.py", "--shapes", "x=n", "--trusted")
    assert (done.returncode, done.stderr.strip()) == (4, f"kernelfuzz: {said}torch is not installed: pip install torch")


def test_names_are_those_that_reading_finds(tmp_path: Path) -> None:
    texts = {
        "one.py": _REFERENCE, "named.json": json.dumps({"name": "Scaled-Sum"}),
        "Model.py": "class Model: ...\ndef get_inputs(): ...\n",
        "mine.json": json.dumps({"sources": [{"path": "main.py", "content": "import triton\n"}]}),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "task").mkdir()
    names = [name_in(str(tmp_path / each)) for each in ("one.py", "named.json", "Model.py", "task", "task/task.yml")]
    assert names == ["halved", "scaled_sum", "model", "task", "task"]
    assert framework_in(str(tmp_path / "mine.json")) == ("mine", "triton")
    for library, arrays in {"jax.numpy": "jax", "torch": "torch", "math": "torch"}.items():
        (tmp_path / "beside.py").write_text(f"import {library}\n\n\ndef mine(x):\n    return x\n")
        assert framework_in(str(tmp_path / "beside.py")) == ("beside", arrays)


def test_a_server_of_one_untrusted_kernel_imports_what_that_uses() -> None:
    assert imports_of(FRAMEWORKS["torch"], untrusted=True) == ("torch",)
    assert imports_of(FRAMEWORKS["torch"], untrusted=False) == imports_of(FRAMEWORKS["triton"], untrusted=False), (
        "one server has both"
    )
    assert imports_of(FRAMEWORKS["triton"], untrusted=True) == ("torch", "triton.language")
