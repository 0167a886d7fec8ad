"""Standalone programs of cases whose tensors overlap in every way, of a Triton kernel, and of a stray read in torch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fuzz.campaign.reproducing import ChosenCase, write_script
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judgement
from fuzz.tests.common.hunting import PACK, failing, given_case, mutant
from fuzz.tests.common.programs import assert_overlap_is_shown, run_program, target_on, written
from fuzz.tests.cover.report import test_scripts


@pytest.mark.parametrize("turn", [0, 1, 2, 3, 5, 6, 7, 8, 9])  # the others lie a row back, where nothing is read late
def test_an_overlap_lies_in_the_program_as_it_does_in_the_case(tmp_path: Path, turn: int) -> None:
    assert_overlap_is_shown(tmp_path, turn)


def test_a_stray_read_in_torch_is_shown_by_a_python_program(tmp_path: Path) -> None:
    test_scripts.test_a_stray_read_is_shown_by_a_python_program(tmp_path, "torch", "x.data_ptr()")


def test_a_triton_failure_is_shown_by_a_python_program(tmp_path: Path) -> None:
    kernel = mutant("triton-tail-not-summed")
    target = target_on(kernel, "@interpret")
    case = given_case((2, 7), 1, "contiguous")
    with WorkerPool([target]) as pool:
        _, judgement = failing(pool, target, case)
    path = written(tmp_path, "repro.py", case, judgement, target)
    assert not re.search(r"^(from|import) fuzz", path.read_text(), re.MULTILINE)
    code, said = run_program([sys.executable, "-I", "repro.py"], tmp_path)
    assert code == 1, said
    assert "FAILS: y[0] = " in said
    passing = Judgement(target.id, case.digest, Verdict.PASS)
    base = next(k for k in PACK.kernels if k.name == "vector-generic")
    write_script(path, ChosenCase(case, None), passing, target_on(base, "@interpret"))
    assert run_program([sys.executable, "-I", "repro.py"], tmp_path) == (0, "passed\n")
