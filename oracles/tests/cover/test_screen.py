"""The screen passes nothing that the enclosures do not, and nearly all that they do; of that it says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from oracles import Lanes, Numerics, Pairwise
from oracles.doubledouble import F64
from oracles.enclosure import Enclosure, Mask, Worst, compare, passes, worst_pass
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.screen import Received, Screens
from oracles.simulation import rms_norm
from oracles.tests.common.adversary import RECIPES, probes, step, store
from oracles.tests.common.problems import CONTRACTS, forward
from oracles.truth import Truth

FORWARD = [("rms_norm", "f32"), ("rms_norm", "bf16"), ("fused_add_rms_norm", "f16"), ("fused_add_rms_norm", "f64")]


SATURATING = Numerics(cast="llama", saturate=True)
ALMOST_PLAIN = (
    Numerics(sum_range="exact"),
    Numerics(eps="input"),
    Numerics(residual="unrounded"),
    Numerics(offset="weight"),
)
EVERY = tuple(
    replace(base, summation=summation)
    for base in (*CONTRACTS.values(), SATURATING, replace(SATURATING, cast="gemma"), *ALMOST_PLAIN)
    for summation in (base.summation, Lanes(2, 2, "scalar"), Pairwise(2))
)
"""contracts whose screens are made together; some differ in their summation alone."""


def screened(truth: Truth, name: str, numerics: Numerics, got: F64) -> Worst | None:
    return truth._screened(name, numerics, Received({name: got}))


def contradiction(truth: Truth, name: str, numerics: Numerics, enclosure: Enclosure, got: F64) -> str | None:
    """What is wrong with the screen's pass of an output, if it passes it."""
    worst = screened(truth, name, numerics, got)
    if worst is None:
        return None
    comparison = compare(enclosure, got)
    for index in map(tuple, np.argwhere(~passes_each(enclosure, got))):
        bounds = truth.bounds(numerics, name, index, truth.problem.structured)
        if comparison.failing[index] or bounds is None or not conforms(bounds, float(got[index])):
            return f"{name}{index} = {float(got[index]).hex()} does not conform"
    if not passes(enclosure, got):
        return None  # NaN where it must be, or the fast tier is unsure: there is no ratio to compare
    known = worst_pass(enclosure, got)
    if worst.ratio != pytest.approx(known.ratio, rel=1e-6, abs=1e-9):
        return f"{name}: ratio {worst.ratio!r}, {known.ratio!r} by the enclosures"
    return None


def passes_each(enclosure: Enclosure, got: F64) -> Mask:
    values = enclosure.values(got)
    found: Mask = (values >= enclosure.inner[0]) & (values <= enclosure.inner[1])
    return found


def checked(problem: Problem, numerics: Numerics, rng: np.random.Generator) -> int:
    """Outputs on which the screen of one contract among many was compared with the enclosures."""
    truth, count = Truth(problem, EVERY), 0
    for name, enclosure in truth.enclosures(numerics, problem.structured).items():
        for got in probes(enclosure, rng):
            screened(truth, name, EVERY[-1], got)  # who is asked about first has the first place
            wrong = contradiction(truth, name, numerics, enclosure, got)
            assert wrong is None, f"{numerics}: {wrong} {problem}"[:900]
            count += screened(truth, name, numerics, got) is not None
    return count


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("op", "dtype"), FORWARD)
def test_what_the_screen_passes_conforms_and_is_as_far_off_as_the_enclosures_say(
    op: str, recipe: str, dtype: str
) -> None:
    rng = np.random.default_rng(11)
    for number, problem in enumerate(forward(op, recipe, dtype, len(EVERY) // 3, 9)):
        checked(problem, EVERY[3 * number + len(op) % 3], rng)


@pytest.mark.parametrize(
    "numerics", [SATURATING, replace(SATURATING, cast="gemma"), Numerics(), Numerics(cast="llama")]
)
@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
def test_the_screen_knows_outputs_that_overflow_and_weights_that_are_not_finite(op: str, numerics: Numerics) -> None:
    rng = np.random.default_rng(13)
    for problem in forward(op, "normal", "f16", 8, 9):
        weight = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1.5, 3e4, -6e4], problem.input("x").shape[1])
        large = {name: store(problem.input(name).astype(np.float64) * 2.0**14, "f16") for name in problem.inputs}
        inputs = {**large, "weight": store(weight, "f16")}
        assert checked(replace(problem, inputs=inputs, outputs={**problem.outputs, "y": "f16"}), numerics, rng)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_screen_passes_what_is_barely_right_and_nothing_that_is_barely_wrong(dtype: str, weighted: bool) -> None:
    """On the ends of the conformance sets, and one neighbour past them in one element."""
    rng = np.random.default_rng(12)
    decided = 0
    for n in (3, 33, 400):
        x, weight = store(rng.standard_normal((4, n)), dtype), store(rng.uniform(0.5, 2, n), dtype)
        inputs = {"x": x, "weight": weight} if weighted else {"x": x}
        problem = Problem("rms_norm", {"eps": 1e-5}, inputs, {"y": dtype, "rstd": "f32"})
        contracts = EVERY[:3]
        truth = Truth(problem, contracts)
        for numerics in contracts:
            for name, enclosure in truth.enclosures(numerics, False).items():
                assert enclosure.negative is not None
                sign = np.where(enclosure.negative, -1.0, 1.0)
                for end, outward in zip(enclosure.inner, (-1, 1), strict=True):
                    decided += screened(truth, name, numerics, sign * end) is not None
                    at = int(rng.integers(end.size))
                    beyond = end.copy()
                    beyond.flat[at] = step(enclosure.outer[outward > 0], outward, enclosure.form).flat[at]
                    assert screened(truth, name, numerics, sign * beyond) is None
                    unsigned = sign * end
                    unsigned.flat[at] = -unsigned.flat[at]
                    assert screened(truth, name, numerics, unsigned) is None
    assert decided == 3 * 3 * 2 * 2


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("recipe", ["normal", "spike", "one nan", "one inf", "few zeros", "wide"])
def test_right_outputs_need_no_enclosures(dtype: str, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with NaN, infinities and zeros among them: or most runs of a search would pay for the fast tier."""
    numerics = Numerics()
    for problem in forward("rms_norm", recipe, dtype, 12, 40):
        if "weight" in problem.inputs or not problem.eps:
            continue
        x = problem.input("x")
        with np.errstate(all="ignore"):
            y, root = rms_norm(x, numerics, problem.eps, problem.outputs["y"])
        truth = Truth(problem, [numerics])
        monkeypatch.setattr(truth, "enclosures", lambda *_: pytest.fail("the screen did not decide"))
        assert [check.result for check in truth.check(numerics, {"y": y, "rstd": root})] == ["pass", "pass"]


def test_screens_of_a_contract_are_made_once_whichever_is_asked_about_first(monkeypatch: pytest.MonkeyPatch) -> None:
    x = store(np.random.default_rng(15).standard_normal((2, 8)), "f32")
    truth = Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"}), EVERY[:2])
    made, make = list[Numerics](), truth.op.screens

    def counted(contracts: Sequence[Numerics], structured: bool) -> Mapping[Numerics, Screens]:
        made.extend(contracts)
        return make(contracts, structured)

    monkeypatch.setattr(truth.op, "screens", counted)
    received = truth.receive({"y": rms_norm(x, Numerics(), 0.0, "f32")[0]})
    for numerics in (EVERY[2], EVERY[0], EVERY[1], EVERY[3], EVERY[0]):
        assert truth.check(numerics, received)[0].result == "pass"
    assert made == [EVERY[2], EVERY[0], EVERY[1], EVERY[3]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_contracts_that_form_the_weight_otherwise_share_no_exact_values(order: tuple[int, int]) -> None:
    rng = np.random.default_rng(14)
    x, weight = store(rng.standard_normal((2, 64)), "f32"), store(rng.uniform(0.01, 0.1, 64), "bf16")
    problem = Problem("rms_norm", {"eps": 0.0, "offset": 1.0}, {"x": x, "weight": weight}, {"y": "f32"})
    contracts = [(Numerics(), Numerics(offset="weight"))[place] for place in order]
    truth = Truth(problem, contracts)
    for numerics in contracts:
        for other in contracts:
            got = rms_norm(x, numerics, 0.0, "f32", weight, 1.0)[0].astype(np.float64)
            assert (screened(truth, "y", other, got) is not None) == (numerics == other)
