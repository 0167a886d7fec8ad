"""Standalone programs, built and run as whoever gets them would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from fuzz.campaign.reproducing import ChosenCase, write_script
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.memory import shift
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.aliasing import aliased_as
from fuzz.core.judge.judge import Judgement
from fuzz.findings.casefile import FoundRecord
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import PACK, failing, mutant

COMMANDS = re.compile(r"^ \*   (\S.*)$", re.MULTILINE)


def target_on(kernel: Kernel, ending: str) -> Target:
    return next(t for t in expand([kernel], this_host()) if t.id.endswith(ending) and t.unavailable() is None)


def written(folder: Path, name: str, case: Case, judgement: Judgement, target: Target) -> Path:
    law = judgement.law if judgement.verdict is Verdict.FAIL_LAW else None
    found = FoundRecord(target.id, judgement.verdict.value, 1, "0", law)
    write_script(folder / name, ChosenCase(case, found, law), judgement, target)
    return folder / name


def run_program(command: list[str], folder: Path) -> tuple[int, str]:
    """In a folder that holds nothing but the program, with nothing of ours on a path. It must leave nothing behind."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRITON"))}
    with tempfile.TemporaryDirectory() as temporary:
        environment["TMPDIR"] = temporary
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert not [*Path(temporary).glob("repro-*")], done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


def run_c(path: Path) -> tuple[int, str]:
    """By the commands that stand in its first comment: those that build it, and the one that runs it."""
    assert 'kernelfuzz.h"' not in path.read_text(), "it must include nothing of ours"
    *builds, run = COMMANDS.findall(path.read_text())
    for build in builds:
        code, said = run_program(["sh", "-c", build], path.parent)
        assert code == 0, said
    return run_program(shlex.split(run), path.parent)


def shown_and_corrected(folder: Path, wrong: Kernel, right: Kernel, ending: str, case: Case) -> str:
    """What the program of the wrong kernel prints; that of the right one must pass."""
    target = target_on(wrong, ending)
    with WorkerPool([target]) as pool:
        _, judgement = failing(pool, target, case)
    (folder / "wrong").mkdir()
    (folder / "right").mkdir()
    code, said = run_c(written(folder / "wrong", "repro.c", case, judgement, target))
    assert code == 1, said
    passing = Judgement(target.id, case.digest, Verdict.PASS)
    write_script(folder / "right" / "repro.c", ChosenCase(case, None), passing, target_on(right, ending))
    assert run_c(folder / "right" / "repro.c") == (0, "passed\n")
    return said


def assert_overlap_is_shown(folder: Path, turn: int) -> None:
    """The planted kernel fails only where y is further on, the other one only where it is further back."""
    case = aliased_as(a_case("rms_norm", ("weight",), (2, 9), layout=dense), ("y", "over", "x"), turn)
    forward, backward = mutant("weighted-overlap-forgotten"), with_reading_backwards()
    wrong = forward if shift(case.inputs["x"].layout, case.outputs["y"].layout) > 0 else backward
    said = shown_and_corrected(folder, wrong, PACK.kernel("weighted"), "native:gcc-O2", case)
    assert "FAILS: y[" in said


def with_reading_backwards() -> Kernel:
    """Forgets the overlap as the mutant does, and goes through a row from its end."""
    loop = "for (int64_t i = 0; i < r->n; i++) {\n        real y ="
    forgotten = next(k for k in PACK.mutated_kernels() if k.name == "weighted-overlap-forgotten").edits
    edits = (*forgotten, (loop, "for (int64_t i = r->n - 1; i >= 0; i--) {\n        real y ="))
    return replace(PACK.kernel("weighted"), name="planted", edits=edits)
