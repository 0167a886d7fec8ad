"""With --max-time a ruling comes in that time, in every phase, and says what was not judged."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

import pytest

import fuzz
from fuzz.campaign.search import deadline
from fuzz.campaign.search.deadline import Stopping
from fuzz.campaign.session import Session
from fuzz.cli.mcp import judge as judged_for_agents
from fuzz.core.adapters.target import Target
from fuzz.tasks import replay
from fuzz.tasks.judge import formula, judging
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.readers.source import TaskError
from fuzz.tests.conftest import HANG_S, Cli, run_cli

_REFERENCE = "def halved(x):\n    return x / 2\n"
_BRANCHES = "def halved(x):\n    return x / 2 if x.sum() > 0 else x\n"
_TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x / 2


def get_inputs():
    return [torch.rand(6, 4)]
"""
_RIGHT = "import numpy as np\n\ndef kernel(x):\n    return x * np.float32(0.5)\n"
_WRONG = _RIGHT.replace("0.5", "0.51")
_LIMIT = "1000s"


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Stopping]:
    """Those that begin. Nothing waits for long once one is over."""
    began, enter = list[Stopping](), Stopping.__enter__

    def noted(self: Stopping) -> Stopping:
        began.append(self)
        return enter(self)

    monkeypatch.setattr(deadline, "GRACE_S", 0.05)
    monkeypatch.setattr(Stopping, "__enter__", noted)
    return began


_OVER = f"not judged, as --max-time {_LIMIT} was over: "


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("place", "name", "reference", "solution", "verdict", "said"),
    [
        (Session, "explain", _REFERENCE, _WRONG, "wrong", ""),
        (judging, "own_shapes", _TASK, _RIGHT, "right", f"{_OVER}the task's own shapes"),
        (formula, "drive", _TASK, _RIGHT, "right", f"right at the task's own shapes alone: {_OVER}more than 0 cases"),
        (formula, "drive", _REFERENCE, _RIGHT, "undecided", f"{_OVER}more than 0 cases"),
        (replay, "drive", _BRANCHES, _RIGHT, "undecided", f"{_OVER}more than 0 cases"),
    ],
    ids=["explain", "own_shapes", "search_of_task", "search", "replay"],
)
def test_what_hangs_ends_with_the_time_and_what_was_judged_is_told(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: list[Stopping], place: Any, name: str,
    reference: str, solution: str, verdict: str, said: str,
) -> None:  # fmt: skip
    done, ruling = _judged_while_one_hangs(cli_here, tmp_path, monkeypatch, limits, (place, name), reference, solution)
    [mine] = ruling["solutions"]
    assert (ruling["verdict"], mine["verdict"], mine["reason"]) == (verdict, verdict, said)
    assert done == {"right": 0, "wrong": 1, "undecided": 11}[verdict]
    assert (said[said.find(_OVER) :] in ruling["not_exercised"]) == bool(said)


@pytest.mark.some(2)
@pytest.mark.parametrize(("solution", "verdict"), [(_RIGHT, "right"), (_WRONG, "wrong")])
@pytest.mark.parametrize("reference", [_REFERENCE, _TASK], ids=["function", "task"])
def test_a_replay_judges_if_reading_takes_longer_than_its_share_of_the_time(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: list[Stopping], reference: str,
    solution: str, verdict: str,
) -> None:  # fmt: skip
    place = (judging, "formula_judge")
    _, ruling = _judged_while_one_hangs(cli_here, tmp_path, monkeypatch, limits, place, reference, solution)
    assert (ruling["verdict"], ruling["oracle"], ruling["cases"]) == (verdict, "replay", 8)
    assert re.search(rf"cannot be read: that takes longer than \d+ s of --max-time {_LIMIT}", ruling["reference"])
    assert (ruling["solutions"][0]["own_shapes"] is None) == (reference == _REFERENCE)
    # It may be the solution that is slow, and a replay sees less.
    if verdict == "right":
        assert ruling["solutions"][0]["reason"].endswith("what a formula sees and a replay does not")
        assert ruling["solutions"][0]["score"] == 0.0


def _judged_while_one_hangs(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: list[Stopping], place: tuple[Any, str],
    reference: str, solution: str,
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    """Return the exit code and the ruling of eight cases, while the function at `place` takes all of its time."""

    def hangs(*given: object, **named: object) -> NoReturn:
        [limit] = limits
        limit._until = time.monotonic()  # now its time is over, whatever the machine does
        limit._arm(0.0)
        while time.monotonic() < limit._until + HANG_S:
            pass
        raise AssertionError

    monkeypatch.setattr(*place, hangs)
    (tmp_path / "ref.py").write_text(reference)
    (tmp_path / "mine.py").write_text(solution)
    shapes = () if "Model" in reference else ("--shapes", "x=b n")
    words = ("--against", "ref.py", *shapes, "--seed", "1", "--max-cases", "8", "--json", "--trusted")
    done = cli_here("judge", "mine.py", *words, "--max-time", _LIMIT)
    return done.returncode, json.loads(done.stdout)


def test_time_is_left_for_the_full_size_of_a_task_whose_batch_was_made_smaller(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails with a smaller batch alone is undecided: a network without its biases was."""
    shares, sooner = list[float](), Stopping.sooner

    def noted(self: Stopping, share: float) -> AbstractContextManager[None]:
        shares.append(share)
        return sooner(self, share)

    monkeypatch.setattr("fuzz.tasks.judge.own._CALL_S", 0.0)
    monkeypatch.setattr(Stopping, "sooner", noted)
    (tmp_path / "ref.py").write_text(
        _TASK.replace("class", "batch_size = 6\n\n\nclass").replace("rand(6,", "rand(batch_size,")
    )
    (tmp_path / "mine.py").write_text(_WRONG)
    words = ("--against", "ref.py", "--seed", "1", "--max-cases", "2", "--json", "--trusted", "--own-shapes")
    ruling = json.loads(cli_here("judge", "mine.py", *words, "--max-time", _LIMIT).stdout)
    assert ruling["solutions"][0]["full_size"]["verdict"] == "wrong"
    assert shares[-1] == 0.75


_TOGETHER = """import torch

batch_size = 6


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.ones(3) for _ in range(45))

    def forward(self, x):
        for weight in self.weights:
            x = x * weight
        return x - x.mean(0)


def get_inputs():
    return [torch.rand(batch_size, 3)]
"""


@pytest.mark.parametrize(("words", "verdict"), [((), "wrong"), (("--own-shapes",), "undecided")])
def test_who_fails_with_a_smaller_batch_is_wrong_unless_other_shapes_do_not_matter(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], verdict: str
) -> None:
    """A dense block without its activation was undecided: its rows hang together, so that none is judged alone."""
    monkeypatch.setattr("fuzz.tasks.judge.own._CALL_S", 0.0)
    (tmp_path / "ref.py").write_text(_TOGETHER)
    (tmp_path / "mine.py").write_text(_TOGETHER.replace("Model(", "ModelNew(").replace(" - x.mean(0)", ""))
    asked = ("--against", "ref.py", "--seed", "1", "--max-cases", "2", "--json", "--trusted", *words)
    ruling = json.loads(cli_here("judge", "mine.py", *asked).stdout)
    assert ruling["verdict"] == verdict
    assert "but for batch_size = 1, as more takes too long" in ruling["reference"]


def test_no_case_has_more_than_a_quarter_of_the_time(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[float | None]()

    def noted(targets: list[Target], **options: Any) -> NoReturn:
        given.append(options["longest"])
        raise TaskError("it is known")

    monkeypatch.setattr(formula, "WorkerPool", noted)
    (tmp_path / "ref.py").write_text(_REFERENCE)
    (tmp_path / "mine.py").write_text(_RIGHT)
    words = ("--against", "ref.py", "--shapes", "x=n", "--max-cases", "1", "--json", "--trusted")
    for limit in ((), ("--max-time", "20m")):
        cli_here("judge", "mine.py", *words, *limit)
    assert given == [None, 300.0]


def test_from_python_the_ruling_is_that_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(("a.py",), "ref.py", None, "finite", 1, 8, 8, tmp_path, True, (), None, None, max_time=2.0)
    told, ran = judging.unjudged(asked, 80).ruling, list[list[str]]()
    said = {"stdout": told.text(), "stderr": ""}

    def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        ran.append(words[words.index("judge") :])
        return subprocess.CompletedProcess(words, 11, **said)

    monkeypatch.setattr(subprocess, "run", run)
    found = fuzz.judge(
        ["a.py", Path("b.py")], against="ref.py", shapes="x=n", full=True, seed=0, max_time=2.0, target=("torch@cpu",)
    )
    assert (found.text(), found.verdict, found.solutions[0].solution) == (told.text(), "undecided", "a.py")
    options = "--against ref.py --shapes x=n --full --seed 0 --max-time 2.0 --target torch@cpu"
    assert ran == [["judge", "--json", "a.py", "b.py", *options.split()]]
    said.update(stdout="", stderr="kernelfuzz: ref.py: No such file or directory\n")
    with pytest.raises(fuzz.CheckError, match=r"^ref\.py: No such file or directory$"):
        fuzz.judge("a.py", against="ref.py")


@pytest.mark.whole
def test_agents_may_limit_the_time_too(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(_REFERENCE)
    (tmp_path / "mine.py").write_text(_RIGHT)
    ruling = judged_for_agents(str(tmp_path / "mine.py"), str(tmp_path / "reference.py"), "x=... n", max_time=0.001)
    assert ruling["verdict"] == "undecided"
    assert ruling["not_exercised"] == ["not judged, as --max-time 0.001s was over: any case"]


def test_a_sooner_limit_leaves_no_library_half_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that imported torch was cut off there, and torch could not be imported again: exit code 4."""
    slow = "import time\nfor _ in range(60):\n    time.sleep(0.01)\n"
    (tmp_path / "imported_slowly.py").write_text(f"{slow}open({str(tmp_path / 'ended')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Stopping(HANG_S, notes_at=0.0) as stop, stop.sooner(0.1 / HANG_S):
        stop.within(lambda: importlib.import_module("imported_slowly"), 0.0)
        assert stop.is_over
    assert (tmp_path / "ended").exists()


def test_threads_of_torch_sleep_while_they_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other work threads that spin take most of the time: a replay of an LSTM took ten times as long."""
    monkeypatch.delenv("OMP_WAIT_POLICY")  # the tests' own
    (tmp_path / "reference.py").write_text(_REFERENCE)
    (tmp_path / "mine.py").write_text(_RIGHT)
    words = ("mine.py", "--against", "reference.py", "--shapes", "x=n", "--max-cases", "1")
    assert "GOMP_SPINCOUNT = '0'" in run_cli(tmp_path, "judge", *words, OMP_DISPLAY_ENV="VERBOSE").stderr
