"""Ops judged from their formulas: both tiers, rows by themselves, and batches all say the same; a wrong oracle is
noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from oracles.enclosure import Enclosure
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Exact
from oracles.formula.exact.lengths import Places
from oracles.summation import Lanes
from oracles.tests.common.formulas import HARD
from oracles.tests.common.judged import GELU, SOFTMAX, TOYS, kernel, known, problem, returned
from oracles.tests.common.ops import LAYER_NORM, LAYER_NORM_BACKWARD
from oracles.tests.common.tiers import formula_tiers_agree
from oracles.tiers import joined
from oracles.tiers.conformance import Conformance
from oracles.tiers.joined import Received
from oracles.truth import OracleDisagreement, Truth, settle

CONTRACTS = (
    Contract(), Contract(sums={"n": Lanes(4, 2, "scalar")}), Contract("input"), Contract(denormals="flush"),
    Contract(nonfinite="unspecified", saturate=True, zeros="any"), Contract("f64"), Contract("bf16", mean="reciprocal"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with known(*TOYS):
        yield


@pytest.mark.whole
def test_the_tiers_agree_on_ten_thousand_elements() -> None:
    compared, unsure = formula_tiers_agree(TOYS, CONTRACTS, 1, seed=1)
    assert compared > 10_000, compared
    assert unsure < compared / 20


def _batch(rng: np.random.Generator) -> list[tuple[Truth, list[tuple[Contract, Received]]]]:
    found = []
    for number, kind in enumerate(HARD):
        op, n = TOYS[number % 4], (5, 9)[number // 4 % 2]
        of = problem(op, kind, "f32", (2, n) if number % 3 else (n, 3), rng, axis=-1 if number % 3 else 0)
        truth, queries = Truth(of), []
        way = {"var": "welford"} if op is LAYER_NORM else {}
        for contract in (*(replace(each, algorithm=way) for each in CONTRACTS[:2]), CONTRACTS[2 + number % 3]):
            right = returned(of, kernel(of, contract, rng))
            first = next(iter(right))
            wrong = {**right, first: (right[first] * np.float32(0.999)).astype(np.float32)}
            queries += [(contract, truth.receive(each)) for each in (right, wrong)]
        found.append((truth, queries))
    return found


def test_a_batch_says_what_is_said_of_each_problem_by_itself() -> None:
    asked, decided = _batch(np.random.default_rng(4)), 0
    for (truth, queries), found in zip(asked, settle(asked), strict=True):
        for (contract, received), settled in zip(queries, found, strict=True):
            checks = Truth(truth.problem).check(contract, received)
            worst = max(checks, key=lambda check: check.worst_ratio)
            assert not isinstance(settled, OracleDisagreement)
            if settled is not None:
                decided += 1
                assert {check.result for check in checks} == {"pass"}
                assert settled.worst_ratio == pytest.approx(worst.worst_ratio, rel=1e-9)
                assert (settled.output, settled.worst_index) == (worst.output, worst.worst_index)
            elif all(check.escalated == 0 for check in checks) and truth.problem.op != LAYER_NORM_BACKWARD.name:
                assert {check.result for check in checks} != {"pass"}
    assert decided > 15


OFF = 1.0 + 2.0**-22


def _centre(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Float64.apply
    monkeypatch.setattr(Float64, "apply", lambda self, kind, values: apply(self, kind, values) * OFF)


def _batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where problems are joined, and nowhere else."""
    real = joined._of_places

    def off(enclosure: Enclosure, places: Places) -> Enclosure:
        found = real(enclosure, places)
        return replace(found, centre=found.centre * OFF)

    monkeypatch.setattr(joined, "_of_places", off)


def _wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The half-width of more than one row at once."""
    width = Conformance.width

    def wider(self: Conformance, output: str):  # type: ignore[no-untyped-def]
        found = width(self, output)
        return (
            found + np.abs(self.shaped(output, self._kept(output).centre)) * 2.0**-22
            if self.inputs.extents["..."] > 1
            else found
        )

    monkeypatch.setattr(Conformance, "width", wider)


def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    element = Exact.element
    monkeypatch.setattr(Exact, "element", lambda self, node, place: element(self, node, place) * OFF)


def _notices(joined: bool) -> int:
    """How many of 24 right kernels stop the run."""
    rng, stopped = np.random.default_rng(17), 0
    for number in range(24):
        of = problem((SOFTMAX, GELU, LAYER_NORM)[number % 3], "normal", "f32", (3, 6), rng)
        truth, right = Truth(of), returned(of, kernel(of, Contract(), rng))
        if joined:
            ((found,),) = settle([(truth, [(Contract(), truth.receive(right))])])
            stopped += isinstance(found, OracleDisagreement)
        else:
            try:
                truth.check(Contract(), right)
            except OracleDisagreement:
                stopped += 1
    return stopped


@pytest.mark.some(1)
@pytest.mark.parametrize("plant", [_centre, _batch_alone, _wider, _exact])
def test_an_oracle_that_is_off_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 6)
    if plant is _centre:
        assert _notices(False) == _notices(True) == 0
    plant(monkeypatch)
    assert _notices(True) > 5
    if plant is not _batch_alone:
        assert _notices(False) > 5
