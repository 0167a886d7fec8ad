"""Calibration: correct kernels written from formulas, judged through the ordinary search."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fuzz.adapters import abi
from fuzz.tests.conftest import Cli
from fuzz.uses.calibrate.calibration import BUILDS, calibrated, planned
from fuzz.uses.calibrate.measure import Measured, Work, measured
from fuzz.uses.calibrate.packs import Pair
from oracles.doubledouble import F64
from oracles.formula.budget import Budget
from oracles.formula.contract import Contract
from oracles.formula.emission import Emission
from oracles.formula.forms import Form
from oracles.ops import OPS
from oracles.summation import Tiles

CONTRACT = Contract(sums={"n": Tiles(8)}, mean="reciprocal")


def judged(folder: Path, op: str, contract: Contract, runs: int = 120) -> Measured:
    return measured(Work(op, 0, folder, 3, runs), Pair(OPS[op], contract, 0))


def test_the_kernels_in_c_compile_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "kernelfuzz.h").write_text(abi.header(OPS.values()))
    for name, op in OPS.items():
        (tmp_path / f"{name}.c").write_text(Emission(op, CONTRACT, fused=True).source)
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I.", *(f"{op}.c" for op in OPS)]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("op", ["softmax", "layer_norm_backward"])
def test_both_kernels_pass_the_ordinary_search(op: str, tmp_path: Path) -> None:
    found = judged(tmp_path, op, CONTRACT)
    assert (found.alarms, found.found) == ([], 0)
    assert found.runs["simulated"] >= 20
    assert found.runs["gcc-O0"] == found.runs["gcc-O2"] >= 20
    assert found.elements["simulated"] > 100
    assert 0.0 < found.ratio <= 1.0


def test_a_budget_that_is_too_narrow_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_width = Budget.half_width

    def narrower(self: Budget, form: Form) -> F64:
        return np.maximum(half_width(self, form) - np.abs(form.centre) * 2.0**-22, 0.0)

    monkeypatch.setattr(Budget, "half_width", narrower)
    found = judged(tmp_path, "softmax", CONTRACT, runs=700)
    assert found.found > 0
    assert "FAIL_NUMERIC" in found.alarms[0]
    assert "kernelfuzz repro " in found.alarms[0]
    assert "kernelfuzz explain-budget" in found.alarms[0]


def test_pairs_that_are_not_run_are_counted_with_the_reason() -> None:
    op, plan = OPS["softmax"], planned([OPS["softmax"]], 1, 0, Path("nowhere"), None)
    every = [Measured("softmax", work.number, "") for work in plan]
    for each in every:
        each.runs.update({name: 1 for name in BUILDS if not name.startswith("clang")})
        each.not_run |= {"clang-O0": "clang is not installed", "clang-O2": "clang is not installed"}
    whole = calibrated(op, every)
    assert {*whole.missing} == {"clang is not installed"}
    assert calibrated(op, every[:5]).missing["its contract was not reached"] > 0
    for each in every:
        each.runs.update(dict.fromkeys(BUILDS, 1))
    assert calibrated(op, every).missing == {}
    assert calibrated(op, every).covered == whole.covered + sum(whole.missing.values())


def test_the_verb_says_what_was_judged_and_what_was_not(cli_here: Cli) -> None:
    done = cli_here("calibrate", "--op", "softmax_b*", "--runs", "40", "-j", "1", "--max-time", "0.01s", "--markdown")
    assert done.returncode == 0, done.stdout + done.stderr
    row = re.search(r"^\| softmax_backward \| 1 \| (\S+) \| (\S+) \| (\S+) \| .* \| 0 \|$", done.stdout, re.MULTILINE)
    assert row is not None, done.stdout
    assert all(int(each.replace(",", "")) > 0 for each in row.groups())
    assert re.search(r"^softmax_backward: \S+ pairs not run: its contract was not reached$", done.stdout, re.MULTILINE)
    assert "0 false alarms, 0 undecided, seed 1" in done.stdout
    wrong = cli_here("calibrate", "--op", "nothing")
    assert wrong.returncode == 4
    assert "no such op; there are rms_norm," in wrong.stderr
