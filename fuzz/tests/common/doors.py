"""What each door of kernelfuzz says where something is wrong: commands, what befalls them, and what must come."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from fuzz.core.base.exits import ENDINGS, Exit
from fuzz.tests.common.running import KERNELFUZZ, Running
from fuzz.tests.common.validity import valid_junit, valid_sarif
from fuzz.tests.conftest import CHECKOUT

_PACK = """from pathlib import Path

from fuzz import Capabilities, Contract, Op, Operand, PythonKernel
from fuzz import formula as f

HERE = Path(__file__).parent / "softmaxes.py"


def dead(x):
    return {{"y": 2 * x, "z": f.log(-1 - x * x)}}


OPS = (Op(dead, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"), Operand("z", "... n"))),)
DEAD = PythonKernel("dead", "dead", HERE, "numpy", contract=Contract(nonfinite="unspecified"))
GOOD = PythonKernel("good", "softmax", HERE, "numpy", capabilities=Capabilities(empty=False))
IDLE = PythonKernel("idle", "softmax", HERE, "cupy")
KERNELS = ({kernels},)
"""
_SOFTMAXES = """import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def dead(x):
    return {"y": 2 * x, "z": 3 * x}
"""
_CHECK = """import fuzz
from pack.pack import DEAD, GOOD, IDLE, OPS


def test_kernel():
    fuzz.check({kernel}, op=OPS[0] if {kernel} is DEAD else None, max_cases={cases}, seed=1)
"""
_DEAD = """import torch


def twice(x):
    return 2 * x, torch.log(-1 - x * x)
"""
_REFERENCE = """import torch


def softmax(x):
    return torch.softmax(x, -1)
"""
_FORGES = """import os
import torch


def softmax(x):
    for number in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(("pipe", "socket")):
                os.write(number, b"KFRS" + bytes(8) + b"\\x01\\x00\\x00\\xff" + b"\\xff" * 16)
        except OSError:
            pass
    return 3 * x
"""
FORMATS = ("text", "json", "junit", "sarif", "github", "comment")
_OF_ACTION = {"comment": "results/comment.md", "sarif": "results/kernelfuzz.sarif", "junit": "results/junit.xml"}
"""The reports that the action has written."""
_REPORTS = tuple(word for name in FORMATS for word in ("--report", f"{name}={name}"))
_USES: dict[str, tuple[str, ...]] = {
    "run": ("run", "--pack", "pack", "--seed", "1", "-j", "1", *_REPORTS),
    "gate": ("gate", "--pack", "pack", "-j", "1", *_REPORTS),
    "nightly": ("nightly", "--pack", "pack", "--state", "state", "--seed", "1", "-j", "1", *_REPORTS),
    "judge": ("judge", "solution.py", "--against", "ref.py", "--shapes", "x=... n", "--seed", "1"),
    "repro": ("repro", "1:softmax:0:5", "--pack", "pack"),
    "exported program": ("repro", "1:softmax:0:5", "--pack", "pack", "--script", "program.py"),
    "action": ("--pack", "pack", "-j", "1"),
    "check": ("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_kernel.py"),
}


@dataclass(frozen=True)
class Said:
    """How a door ended."""

    code: int
    text: str
    """Both streams."""
    reports: dict[str, str]
    """The reports that it wrote, by format."""

    @property
    def claims(self) -> list[str]:
        """Name the reports that say that it passed."""
        found = [name for name in ("text", "github", "comment") if ": passed" in self.reports.get(name, "")]
        if "json" in self.reports and json.loads(self.reports["json"])["ok"]:
            found.append("json")
        if "sarif" in self.reports:
            [invocation] = valid_sarif(self.reports["sarif"])["runs"][0]["invocations"]
            found += ["sarif"] if invocation["exitCode"] == 0 else []
        if "junit" in self.reports:
            root = valid_junit(self.reports["junit"])
            found += ["junit"] if root.attrib["errors"] == root.attrib["failures"] == "0" else []
        return found

    def names(self, words: str) -> list[str]:
        """Name the reports that have these words."""
        return [name for name, text in self.reports.items() if words in text]


@dataclass(frozen=True)
class Row:
    """A door, what befalls it, and what it must say."""

    door: str
    fault: str
    code: int
    words: str
    """Some of what it prints."""

    def __str__(self) -> str:
        return f"{self.door}: {self.fault}"

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The row of the page's table."""
        return self.door, self.fault, str(self.code), self.words


ROWS = (
    Row("run", "nothing ran", Exit.NOTHING_RAN, ENDINGS[Exit.NOTHING_RAN]),
    Row("gate", "nothing ran", Exit.NOTHING_RAN, "gate NOTHING RAN"),
    Row("nightly", "nothing ran", Exit.NOTHING_RAN, ENDINGS[Exit.NOTHING_RAN]),
    Row("check", "nothing ran", 1, "NOTHING RAN: cupy-idle@cuda"),
    Row("repro", "nothing ran", Exit.CANNOT_JUDGE, "nothing could be judged: no chosen target ran"),
    Row("action", "nothing ran", Exit.NOTHING_RAN, "gate NOTHING RAN"),
    Row("exported program", "nothing ran", 1, "No module named 'numpy'"),
    Row("run", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("gate", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("nightly", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("action", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("run", "nothing decided", Exit.ORACLE_GAVE_UP, "dead: no wrong value of z could have been seen"),
    Row("gate", "nothing decided", Exit.ORACLE_GAVE_UP, "dead: no wrong value of z could have been seen"),
    Row("nightly", "nothing decided", Exit.ORACLE_GAVE_UP, "dead: no wrong value of z could have been seen"),
    Row("judge", "nothing decided", Exit.ORACLE_GAVE_UP, "no wrong value of y1 could have been seen"),
    Row("check", "nothing decided", 1, "dead: no wrong value of z could have been seen"),
    Row("action", "nothing decided", Exit.ORACLE_GAVE_UP, "dead: no wrong value of z could have been seen"),
    Row("run", "interrupted", Exit.INTERRUPTED, "INTERRUPTED, nothing found"),
    Row("gate", "interrupted", Exit.INTERRUPTED, "gate INTERRUPTED"),
    Row("nightly", "interrupted", Exit.INTERRUPTED, "INTERRUPTED, nothing found"),
    Row("judge", "interrupted", Exit.INTERRUPTED, "interrupted before everything was judged"),
    Row("check", "interrupted", 2, "KeyboardInterrupt"),
    Row("run", "disk full", Exit.INTERNAL, "No space left on device"),
    Row("gate", "disk full", Exit.INTERNAL, "No space left on device"),
    Row("nightly", "disk full", Exit.INTERNAL, "No space left on device"),
    Row("gate", "git fails", Exit.OK, "every kernel counts as changed"),
    Row("action", "git fails", Exit.OK, "every kernel counts as changed"),
    Row("judge", "hostile solution", Exit.FINDINGS, "a broken answer"),
    Row("run", "store away", Exit.USAGE, "--store"),
    Row("gate", "store away", Exit.USAGE, "--store"),
    Row("nightly", "store away", Exit.USAGE, "--store"),
)


def held(row: Row, folder: Path) -> None:
    """Assert that the door of that row says what it must, and that none of its reports says more."""
    said = said_by(row, folder)
    assert said.code == row.code, said.text
    assert row.words in said.text
    assert set(said.claims) <= ({*FORMATS} if row.code == Exit.OK else set())
    if row.fault == "nothing decided" and said.reports:
        assert said.names("could have been seen") == [*said.reports], "the output that was not decided is named"
    if row.door in ("run", "gate", "nightly") and row.fault in ("half ran", "nothing ran", "interrupted"):
        assert [*said.reports] == [*FORMATS]
        assert row.fault == "interrupted" or said.names("idle") == [*FORMATS], "a kernel that was not judged is named"


def said_by(row: Row, folder: Path) -> Said:
    """Return how the door of that row ended in this folder."""
    half = {"nothing ran": "IDLE", "half ran": "GOOD, IDLE", "nothing decided": "DEAD"}.get(row.fault, "GOOD")
    half = "GOOD" if row.door == "exported program" else half
    long = row.fault == "interrupted"
    (folder / "pack").mkdir()
    files = {
        "pack/pack.py": _PACK.format(kernels=half),
        "pack/softmaxes.py": _SOFTMAXES,
        "test_kernel.py": _CHECK.format(kernel=half.partition(",")[0], cases=1000000 if long else 8),
        "ref.py": _DEAD if row.fault == "nothing decided" else _REFERENCE,
        "solution.py": "def twice(x):\n    return 2 * x, 3 * x\n" if row.fault == "nothing decided" else _REFERENCE,
        "hostile.py": _FORGES,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    if row.fault == "git fails":
        _without_a_tree(folder)
    command, more = _command(row, [*_USES[row.door], *_more(row, long)], folder)
    # Of CuPy there may be all that it needs: without a device its kernels run nowhere.
    environment = {"COLUMNS": "200", "KERNELFUZZ_EVENTS": "1" if long else "", "CUDA_VISIBLE_DEVICES": "", **more}
    with Running(command, folder, subprocess.PIPE, **environment) as run:
        before = _signalled(run, signal.SIGINT if row.door == "check" else signal.SIGTERM) if long else ""
        out, err = run.ended()
    names = _OF_ACTION if row.door == "action" else {name: name for name in FORMATS}
    reports = {name: (folder / file).read_text() for name, file in names.items() if (folder / file).exists()}
    return Said(run.returncode, before + out + err, reports)


def _command(row: Row, words: list[str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a door, and its environment."""
    if row.door == "check":
        return [KERNELFUZZ[0], *words], {}
    if row.door == "exported program":  # without the packages that it imports
        made = f"{shlex.join([*KERNELFUZZ, *words])} > made.txt"
        return ["bash", "-c", f"{made} && {KERNELFUZZ[0]} -I -S program.py"], {}
    if row.door != "action":
        return [*KERNELFUZZ, *words], {}
    action = yaml.safe_load((CHECKOUT / ".github" / "actions" / "kernelfuzz" / "action.yml").read_text())
    [step] = [each for each in action["runs"]["steps"] if each["name"] == "Gate"]
    program = folder / "bin" / "kernelfuzz"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(KERNELFUZZ)} "$@"\n')
    program.chmod(0o755)
    base = words.pop() if words[-2] == "--base" else ""
    given = {"ARGUMENTS": " ".join(words[: -1 if base else None]), "BASE": base, "RESULTS": "results"}
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    return ["bash", "-e", "-o", "pipefail", "-c", step["run"]], {**given, "PATH": path}


def _more(row: Row, long: bool) -> Sequence[str]:
    """The options that the fault takes."""
    # A busy machine has not begun after two seconds, which matters where something shall run.
    night = "1h" if long else "30s" if row.fault in ("half ran", "nothing decided") else "2s"  # time for a turn
    limits: dict[str, tuple[str, ...]] = {"nightly": ("--max-time", night), "check": (), "repro": ()}
    limits["exported program"] = ()
    cases = limits.get(row.door, ("--max-cases", "1000000" if long else "8"))
    if row.fault == "disk full":
        return *cases, "--json", "/dev/full"
    more = {
        "store away": ("--store", "postgresql://nobody@127.0.0.1:9/none"),
        "git fails": ("--base", "HEAD~1"),
        "hostile solution": ("hostile.py",),
    }
    return *cases, *more.get(row.fault, ())


def _without_a_tree(folder: Path) -> None:
    """Make a repository of two commits, of which the first has lost its tree."""

    def git(*words: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        done = subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    for number in (1, 2):
        (folder / "pack" / "notes.md").write_text(f"{number}\n")
        git("add", "pack")
        git("commit", "-qm", "a change")
    tree = git("rev-parse", "HEAD~1^{tree}")
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()


def _signalled(run: Running, number: signal.Signals) -> str:
    """Send the signal once some runs are judged; return what was printed until then."""
    assert run.stderr is not None
    lines = list[str]()
    wanted: Callable[[str], bool] = lambda line: '"judged":' in line and '"judged":0' not in line  # noqa: E731
    while not lines or not wanted(lines[-1]):
        lines.append(run.stderr.readline())
        assert lines[-1], "".join(lines)
    run.send_signal(number)
    return "".join(lines)
