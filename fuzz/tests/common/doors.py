"""What each door of kernelfuzz says where something is wrong: commands, what befalls them, and what must come."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.base.exits import ENDINGS, Exit
from fuzz.tests.common.running import KERNELFUZZ, Running
from fuzz.tests.common.validity import valid_junit, valid_sarif

_PACK = """from pathlib import Path

from fuzz import Capabilities, PythonKernel

HERE = Path(__file__).parent / "softmaxes.py"
GOOD = PythonKernel("good", "softmax", HERE, "numpy", capabilities=Capabilities(empty=False))
IDLE = PythonKernel("idle", "softmax", HERE, "cupy")
KERNELS = ({kernels},)
"""
_SOFTMAXES = """import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
_CHECK = """import fuzz
from pack.pack import GOOD, IDLE


def test_kernel():
    fuzz.check({kernel}, max_cases={cases}, seed=1)
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
_REPORTS = tuple(word for name in FORMATS for word in ("--report", f"{name}={name}"))
_USES: dict[str, tuple[str, ...]] = {
    "run": ("run", "--pack", "pack", "--seed", "1", "-j", "1", *_REPORTS),
    "gate": ("gate", "--pack", "pack", "-j", "1", *_REPORTS),
    "nightly": ("nightly", "--pack", "pack", "--state", "state", "--seed", "1", "-j", "1", *_REPORTS),
    "judge": ("judge", "solution.py", "--against", "ref.py", "--shapes", "x=... n", "--seed", "1"),
    "repro": ("repro", "1:softmax:0:5", "--pack", "pack"),
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
    Row("run", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("gate", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("nightly", "half ran", Exit.OK, "NOT_RUN cupy-idle@cuda"),
    Row("run", "interrupted", Exit.INTERRUPTED, "INTERRUPTED, nothing found"),
    Row("gate", "interrupted", Exit.INTERRUPTED, "gate INTERRUPTED"),
    Row("nightly", "interrupted", Exit.INTERRUPTED, "INTERRUPTED, nothing found"),
    Row("judge", "interrupted", Exit.INTERRUPTED, "interrupted before everything was judged"),
    Row("check", "interrupted", 2, "KeyboardInterrupt"),
    Row("run", "disk full", Exit.INTERNAL, "No space left on device"),
    Row("gate", "disk full", Exit.INTERNAL, "No space left on device"),
    Row("nightly", "disk full", Exit.INTERNAL, "No space left on device"),
    Row("gate", "git fails", Exit.OK, "every kernel counts as changed"),
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
    if row.door in ("run", "gate", "nightly") and row.fault in ("half ran", "nothing ran", "interrupted"):
        assert [*said.reports] == [*FORMATS]
        assert row.fault == "interrupted" or said.names("idle") == [*FORMATS], "a kernel that was not judged is named"


def said_by(row: Row, folder: Path) -> Said:
    """Return how the door of that row ended in this folder."""
    half = {"nothing ran": "IDLE", "half ran": "GOOD, IDLE"}.get(row.fault, "GOOD")
    long = row.fault == "interrupted"
    (folder / "pack").mkdir()
    files = {
        "pack/pack.py": _PACK.format(kernels=half),
        "pack/softmaxes.py": _SOFTMAXES,
        "test_kernel.py": _CHECK.format(kernel=half.partition(",")[0], cases=1000000 if long else 8),
        "ref.py": _REFERENCE,
        "solution.py": _REFERENCE,
        "hostile.py": _FORGES,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    if row.fault == "git fails":
        _without_a_tree(folder)
    words = [*_USES[row.door], *_more(row, long)]
    command = [*KERNELFUZZ, *words] if row.door != "check" else [KERNELFUZZ[0], *words]
    # Of CuPy there may be all that it needs: without a device its kernels run nowhere.
    events = "1" if long else ""
    with Running(command, folder, COLUMNS="200", KERNELFUZZ_EVENTS=events, CUDA_VISIBLE_DEVICES="") as run:
        before = _signalled(run, signal.SIGINT if row.door == "check" else signal.SIGTERM) if long else ""
        out, err = run.ended()
    reports = {name: (folder / name).read_text() for name in FORMATS if (folder / name).exists()}
    return Said(run.returncode, before + out + err, reports)


def _more(row: Row, long: bool) -> Sequence[str]:
    """The options that the fault takes."""
    limits: dict[str, tuple[str, ...]] = {"nightly": ("--max-time", "1h" if long else "2s"), "check": (), "repro": ()}
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
