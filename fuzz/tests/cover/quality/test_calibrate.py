"""Calibration: correct kernels written from formulas, judged through the ordinary search."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from itertools import combinations, count
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.adapters.target import Target
from fuzz.core.execute.pool import WorkerPool
from fuzz.quality.__main__ import app
from fuzz.quality.calibrate.contracts import SimulatedPack, contracts, fields
from fuzz.quality.calibrate.measure import ContractMeasurement, Work, begun, calibrated, measured, work_list
from fuzz.tests.common.other_ops import write_other_ops
from fuzz.tests.common.own_dims import write_dims_pack
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.conftest import Cli
from oracles.doubledouble import F64
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.forms import Form
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.summation import AnyOrder, Tiles
from oracles.tests.common.ops import LAYER_NORM

CONTRACT = Contract("f32", sums={"n": Tiles(8)}, mean="reciprocal")


def judged(folder: Path, op: str, contract: Contract, runs: int = 40) -> ContractMeasurement:
    return measured(Work(op, 0, folder, 3, runs), SimulatedPack(OPS[op], contract, 0))


@pytest.mark.parametrize("op", [LAYER_NORM, OPS["rms_norm"]], ids=lambda op: op.name)
def test_any_two_values_of_two_fields_meet_in_a_contract(op: Op) -> None:
    every, values = contracts(op), fields(op)
    assert {"compute", "sums", "accuracy", "mean", "fused", "denormals", "nonfinite", "saturate", "zeros"} <= {*values}
    assert {"dtypes", "algorithm" if op is LAYER_NORM else "points"} <= {*values}
    for a, b in combinations(values, 2):
        met = {(str(getattr(each, a)), str(getattr(each, b))) for each in every}
        assert met == {(str(one), str(two)) for one in values[a] for two in values[b]}, (a, b)
    assert len(every) < 60


def test_a_correct_kernel_passes_the_ordinary_search(tmp_path: Path) -> None:
    found = judged(tmp_path, "layer_norm_backward", CONTRACT, runs=1)
    assert (found.alarms, found.found) == ([], 0)
    assert found.runs >= 10
    assert found.elements > 100
    assert 0.0 < found.ratio <= 1.0
    assert found.not_run == ""


def test_a_correct_kernel_has_more_time_than_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[float | None]()

    def pool(targets: Sequence[Target], *, jobs: int, limit: float | None = None) -> WorkerPool:
        given.append(limit)
        raise KeyboardInterrupt

    monkeypatch.setattr("fuzz.quality.calibrate.measure.WorkerPool", pool)
    with pytest.raises(KeyboardInterrupt):
        judged(tmp_path, "softmax", CONTRACT)
    assert given == [60.0]


def test_a_budget_that_is_too_narrow_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_width = Budget.half_width

    def narrower(self: Budget, form: Form) -> F64:
        return np.maximum(half_width(self, form) - np.abs(form.centre) * 2.0**-22, 0.0)

    monkeypatch.setattr(Budget, "half_width", narrower)
    found = judged(tmp_path, "layer_norm_backward", CONTRACT, runs=40)
    assert found.found > 0
    assert "FAIL_NUMERIC" in found.alarms[0]
    assert "kernelfuzz repro " in found.alarms[0]
    assert "kernelfuzz explain-budget" in found.alarms[0]


def test_all_contracts_come_in_an_order_of_the_seed() -> None:
    lists = [work_list([OPS["softmax"], OPS["layer_norm"]], 1, seed, Path("nowhere"), None) for seed in (1, 2)]
    of_softmax = [[work.number for work in listed if work.op == "softmax"] for listed in lists]
    assert sorted(of_softmax[0]) == sorted(of_softmax[1]) == [*range(len(of_softmax[0]))]
    assert of_softmax[0] != of_softmax[1]
    assert {work.op for work in lists[0][:2]} == {"softmax", "layer_norm"}


def test_contracts_share_the_time_that_is_left() -> None:
    listed, now = work_list([OPS["softmax"]], 1, 0, Path("nowhere"), None), time.monotonic()
    works = list(begun(listed, 2, now + 1e6, []))
    ends = [round(work.until - now, 3) for work in works]
    assert {work.end for work in works} == {now + 1e6}
    assert ends[0] == pytest.approx(1e6 * 2 / len(listed), rel=0.01)
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(1e6, rel=0.01)
    assert [work.until for work in begun(listed, 2, math.inf, [9.0])] == [math.inf] * len(listed)
    assert list(begun(listed, 2, now, [])) == []
    assert list(begun(listed, 2, now + 1e6, [2e6, 3e6])) == [], "none took as little as is left"


def test_a_turn_that_takes_longer_than_there_is_time_ends_with_the_case_at_hand(tmp_path: Path) -> None:
    """A turn has 16 cases; each look at the clock is a second here, and there is one a case."""
    work, seconds = Work("softmax", 0, tmp_path, 3, 1000, until=4.0, end=4.0), count()
    found = measured(work, SimulatedPack(OPS["softmax"], CONTRACT, 0), lambda: float(next(seconds)))
    assert 1 <= found.runs <= 4
    assert (found.alarms, found.found) == ([], 0)


def test_pairs_that_are_not_run_are_counted_with_the_reason() -> None:
    op, listed = OPS["softmax"], work_list([OPS["softmax"]], 1, 0, Path("nowhere"), None)
    every = [ContractMeasurement("softmax", number, "") for number in range(len(listed))]
    for each in every[5:]:
        each.runs = 1
    for each in every[:5]:
        each.not_run = "its contract cannot be declared"
    part = calibrated(op, every)
    assert {*part.missing} == {"its contract cannot be declared"}
    assert calibrated(op, every[:5]).missing["its contract was not reached"] > 0
    for each in every:
        each.runs = 1
    assert calibrated(op, every).missing == {}
    assert calibrated(op, every).covered == part.covered + sum(part.missing.values())


def test_the_verb_says_what_was_judged_and_what_was_not(cli_here: Cli) -> None:
    few = "--runs", "40", "--nearest", "8", "--max-time", "0.01s"
    done = cli_here("calibrate", "--op", "[ls]o*ax", *few, "-j", "1", "--markdown", app=app)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {
        cells[0]: [int(each.replace(",", "")) for each in cells[1:6]]
        for cells in (re.split(r" *\| *", line.strip("| ")) for line in done.stdout.splitlines()[2:5])
    }
    assert {*rows} == {"softmax", "log_softmax", "all"}
    assert rows["softmax"][0] == 1
    assert min(rows["softmax"]) > 0
    assert rows["all"] == [a + b for a, b in zip(rows["softmax"], rows["log_softmax"], strict=True)]
    assert re.search(r"^softmax: \S+ pairs not run: its contract was not reached$", done.stdout, re.MULTILINE)
    _, met, missing, runs, elements = (f"{each:,}" for each in rows["all"])
    assert f"{runs} judged runs, {elements} elements, {met} pairs met and {missing} not run" in done.stdout
    assert "0 false alarms, 0 undecided, seed 1" in done.stdout
    wrong = cli_here("calibrate", "--op", "nothing", app=app)
    assert wrong.returncode == 4
    assert "no such op; there are rms_norm," in wrong.stderr


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ["attend", "matmul", "rope"])
def test_an_op_of_any_dimensions_is_calibrated(op: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    write_dims_pack(tmp_path / "own")
    with unknown_afterwards():
        load(tmp_path / "own")
        work = Work(op, 0, tmp_path / "kernels", 3, 20, pack=tmp_path / "own")
        found = measured(work, SimulatedPack(OPS[op], Contract("f32", nonfinite="overflow"), 0))
    assert (found.alarms, found.found) == ([], 0)
    assert found.runs >= 8


@pytest.mark.whole
def test_ops_with_inputs_of_integers_are_calibrated(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    write_other_ops(tmp_path / "own")
    with unknown_afterwards():
        load(tmp_path / "own")
        for op in ("cross_entropy", "embedded", "masked_mean"):
            work = Work(op, 0, tmp_path / op, 3, 20, pack=tmp_path / "own")
            found = measured(work, SimulatedPack(OPS[op], Contract("f32"), 0))
            assert (found.alarms, found.found) == ([], 0), op
            assert found.runs >= 8


MAPS = """
from pathlib import Path
from fuzz import Capabilities, Contract, PythonKernel
from oracles.tests.common.maps import ALL as OPS

KERNELS = (PythonKernel("mine", "pooled", Path(__file__), "numpy", Contract(), Capabilities()),)
"""
RECURRENCES = MAPS.replace("maps import ALL", "recurrences import OPS").replace("pooled", "products")


@pytest.mark.whole
@pytest.mark.parametrize("op", ["moved", "strided", "apart", "pooled"])
def test_ops_whose_places_follow_from_several_dimensions_are_calibrated(op: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "pack.py").write_text(MAPS)
    with unknown_afterwards():
        load(tmp_path / "own")
        work = Work(op, 0, tmp_path / op, 3, 20, pack=tmp_path / "own")
        found = measured(work, SimulatedPack(OPS[op], Contract("f32"), 0))
    assert (found.alarms, found.found) == ([], 0)
    assert found.runs >= 8


@pytest.mark.whole
@pytest.mark.parametrize("op", ["selective", "decayed", "products"])
def test_recurrences_are_calibrated(op: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "pack.py").write_text(RECURRENCES)
    contract = Contract(
        "f32",
        sums={"t": AnyOrder(), "s": AnyOrder()} if op == "selective" else {"t": AnyOrder()},
        nonfinite="unspecified",
    )
    with unknown_afterwards():
        load(tmp_path / "own")
        work = Work(op, 0, tmp_path / op, 3, 20, pack=tmp_path / "own")
        found = measured(work, SimulatedPack(OPS[op], contract, 0))
    assert (found.alarms, found.found) == ([], 0)
    assert found.runs >= 8
