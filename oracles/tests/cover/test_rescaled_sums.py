"""Sums of shares that are scaled again as the maximum grows: budgets that such kernels need, and never leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import AnyOrder, Blocks, Contract, Pairwise, Sequential, Steps, Within
from oracles.algorithm import traced
from oracles.formula.affine.budget import Budget
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import FormulaError, Node, exp, greatest, online_dot, trace
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.simulated.simulation import ORDERS, Simulated
from oracles.tests.common.gradients import gradient
from oracles.tests.common.judged import kernel, results, returned
from oracles.tests.common.ops import SOFTMAX
from oracles.tests.common.simulated import allowed
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

Array = NDArray[Any]
ONLINE = {"mass": "online", "acc": "online"}
MODES = {"softmax_scale": 1.0, "causal": 0.0, "window": -1.0, "cap": 0.0, "blank": 0.0}
KEYS, WIDTH = 48, 3


def _spiked(place: Array, random: np.random.Generator) -> Array:
    return np.where(place == KEYS - 2, 90.0, random.normal(size=KEYS))


SCORES: Mapping[str, Callable[[Array, np.random.Generator], Array]] = {
    "growing": lambda place, random: place * random.uniform(0.01, 0.3),
    "slowly": lambda place, random: place * 0.05,
    "by leaps": lambda place, random: place // 4 * 21.7 + random.normal(size=KEYS),
    "falling": lambda place, random: -place * 0.37,
    "spike at the end": _spiked,
    "hidden first": lambda place, random: np.where(place < 21, -np.inf, place * 0.11),
    "hidden": lambda place, random: np.full(KEYS, -np.inf),
    "far below": lambda place, random: -8e4 + place * 0.5,
    "zeros among": lambda place, random: np.where(place % 3 == 0, 0.0, place * 0.07),
    "underflow": lambda place, random: place * 2.3 - 3.0,
}
VALUES: Mapping[str, Callable[[np.random.Generator], Array]] = {
    "normal": lambda random: random.normal(size=(KEYS, WIDTH)),
    "alike": lambda random: np.full((KEYS, WIDTH), 1.7),
    "one sign": lambda random: random.uniform(1.0, 2.0, (KEYS, WIDTH)),
}


def problem(values: str, dtype: str = "f32", seed: int = 0, scores: Sequence[str] = tuple(SCORES)) -> Problem:
    """One query for each kind of scores, which are those of the bias alone."""
    random, storage = np.random.default_rng(seed), np.float16 if dtype == "f16" else np.float32
    rows = np.array([SCORES[name](np.arange(KEYS), random) for name in scores])
    with np.errstate(over="ignore"):
        bias = rows.astype(storage)[None, None]
    inputs = {
        "q": np.zeros((1, 1, 1, len(scores), 1), storage), "k": np.zeros((1, 1, KEYS, 1), storage),
        "v": VALUES[values](random).astype(storage)[None, None], "bias": bias,
    }  # fmt: skip
    return Problem("attention", {**MODES, "axis": 4}, inputs, {"o": dtype, "lse": "f32"})


def flash(of: Problem, block: int, lanes: int = 1, forgets: int | None = None, mass: bool = False) -> dict[str, Array]:
    """A kernel in float32: blocks in turn in each lane, and lanes joined one to the other. What it forgets is to scale
    what there is before some block, of the sum of values or of the sum of shares."""
    s, v = of.inputs["bias"][0, 0].astype(np.float32), of.inputs["v"][0, 0].astype(np.float32)
    nothing = np.full(len(s), -np.inf, np.float32), np.zeros(len(s), np.float32), np.zeros((len(s), WIDTH), np.float32)
    parts = [nothing] * lanes

    def joined(a: Any, b: Any, skips: bool = False) -> Any:
        most = np.maximum(a[0], b[0])
        shift = np.where(np.isneginf(most), np.float32(0), most)
        first, second = np.exp(a[0] - shift), np.exp(b[0] - shift)
        one = np.where(np.isneginf(a[0]), first, np.float32(1))
        of_mass, of_values = (one if skips and mass else first), (one if skips and not mass else first)
        return most, a[1] * of_mass + b[1] * second, a[2] * of_values[:, None] + b[2] * second[:, None]

    with np.errstate(all="ignore"):
        for at, start in enumerate(range(0, KEYS, block)):
            some, values = s[:, start : start + block], v[start : start + block]
            most = some.max(axis=1)
            p = np.exp(some - np.where(np.isneginf(most), np.float32(0), most)[:, None])
            own = most, p.sum(axis=1, dtype=np.float32), (p[..., None] * values).sum(axis=1, dtype=np.float32)
            parts[at % lanes] = joined(parts[at % lanes], own, at == forgets)
        found = parts[0]
        for each in parts[1:]:
            found = joined(found, each)
        seen = found[1] > 0
        o = np.where(seen[:, None], found[2] / np.where(seen, found[1], 1)[:, None], 0)
        lse = np.where(seen, found[0] + np.log(found[1]), -np.inf)
    return {"o": o[None, None, None].astype(of.inputs["v"].dtype), "lse": lse[None, None, None].astype(np.float32)}


CONTRACTS = (
    Contract(sums={"j": Sequential()}), Contract(sums={"j": AnyOrder()}, accuracy={"exp": 48.0}),
    Contract(sums={"j": Steps(16)}, accuracy={"exp": 0.5}), Contract(sums={"j": Blocks(4)}, denormals="flush"),
    Contract(sums={"j": Pairwise()}, points={"p": "bf16"}), Contract(sums={"j": Steps(7)}, points={"p": "maybe f16"}),
    Contract(sums={"j": Steps(KEYS)}, accuracy={"exp": 48.0}), Contract(dtypes={"acc": "f64"}, sums={"j": Steps(5)}),
    Contract("f16", sums={"j": Sequential()}), Contract("f64", sums={"j": Steps(3)}),
    Contract(dtypes={"acc": "bf16"}, sums={"j": Steps(6)}),
    Contract(sums={"j": Steps(8)}, accuracy={"exp": Within(2.5, 5.0)}),
    Contract(sums={"j": AnyOrder()}, accuracy={"exp": Within(2.5, 0.62, flushes=True)}),
)  # fmt: skip


WAYS = (ONLINE, {"acc": "online"}, {"mass": "online"})


@pytest.mark.some(1)
@pytest.mark.parametrize(("contract", "ways"), [(each, ways) for ways in WAYS for each in CONTRACTS], ids=str)
def test_correct_kernels_never_leave_their_budget(contract: Contract, ways: Mapping[str, str]) -> None:
    contract = replace(contract, algorithm=ways)
    for seed, values in enumerate(VALUES):
        of = problem(values, "f16" if contract.compute == "f16" else "f32", seed)
        truth = Truth(of)
        for order in ORDERS:
            found = kernel(of, contract, np.random.default_rng(seed), order, fused=bool(seed % 2))
            checks = truth.check(contract, returned(of, found))
            assert [check.result for check in checks] == ["pass", "pass"], (values, order)


def test_kernels_need_the_budget() -> None:
    """Without a word of the scaling they are accused, at the end of a sum over all of a row and of one by blocks."""
    for order, most in ((Sequential(), 20.0), (Steps(16), 1.5)):
        contract = Contract(sums={"j": order}, accuracy={"exp": 48.0})
        online = replace(contract, algorithm=ONLINE)
        of = problem("normal")
        truth, found = Truth(of, confirms=False), list[list[float]]()
        for seed in range(4):
            outputs = returned(of, kernel(of, online, np.random.default_rng(seed)))
            found.append([truth.check(each, outputs)[1].worst_ratio for each in (online, contract)])
        assert 0.5 < max(own for own, _ in found) <= 1
        assert max(other for _, other in found) > most


@pytest.mark.some(1)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("block", [1, 4, 16])
def test_a_kernel_that_forgets_to_scale_once_is_told(block: int, lanes: int) -> None:
    """In any block but the first one of a lane, where the maximum grows with each: by o, or by lse."""
    contract = Contract(sums={"j": Steps(block)}, algorithm=ONLINE)
    whole = problem("normal")
    assert results(whole, contract, flash(whole, block, lanes)) == ["pass", "pass"]
    of = problem("one sign", scores=["slowly"])
    truth = Truth(of)
    for place in range(lanes, KEYS // block):
        for mass in (False, True):
            checks = truth.check(contract, flash(of, block, lanes, place, mass))
            assert [check.result for check in checks] == ["numeric", "numeric" if mass else "pass"], (place, mass)


def test_a_sum_of_exponentials_may_lose_much_of_what_it_is_at_least() -> None:
    """Factors that are all too small, by as much as a long sum in float16 is off by itself."""
    graph = traced(SOFTMAX, {"x", "y"}, {"norm": "online"})
    contract = Contract("f16", accuracy={"exp": 48.0}, sums={"n": Sequential()})
    inputs = Inputs(graph, {"x": (np.arange(160) * 0.002).astype(np.float16)[None]}, {})
    budget, lowest = Budget(inputs, contract, True), np.inf
    for seed in range(12):
        found = Simulated(inputs, contract, np.random.default_rng(seed))
        assert allowed(budget, "y", "f16", found.output("y", "f16"), 1.0).all()
        lowest = min(lowest, float(found.values[graph.locals["norm"]].min()))
    assert lowest < 60, "of 137"


def width(contract: Contract, name: str) -> float:
    of = problem("alike", scores=["growing"])
    op = FormulaProblem(of)
    settled = op.settled(contract)
    budget = Budget(Inputs(op.formulas(settled)[0].trace, op.tensors, op.parameters), settled, True)
    return float(budget.half_width(budget.output(name, "f32")).max())


def test_what_is_scaled_less_often_has_less_to_err_by() -> None:
    """A kernel with one block has little more than one that does not scale, and factors cancel in a quotient."""
    plain, *scaled = (
        Contract(sums={"j": Steps(block)}, algorithm=way, accuracy={"exp": 48.0})
        for block, way in ((KEYS, {}), (KEYS, ONLINE), (16, ONLINE), (1, ONLINE))
    )
    for name in ("o", "lse"):
        widths = [width(plain, name), *(width(each, name) for each in scaled)]
        assert widths == sorted(widths)
        assert widths[1] < 1.1 * widths[0]
    apart = replace(scaled[2], algorithm={"acc": "online"})
    assert width(scaled[2], "o") < 0.2 * width(apart, "o"), "the errors of factors are alike in both sums"


def test_what_overflows_on_the_way_may() -> None:
    """Values that a later maximum makes vanish add up to more than float32 has."""
    of = problem("alike", scores=["spike at the end"])
    huge = replace(of, inputs={**of.inputs, "v": np.full_like(of.inputs["v"], 3e38)})
    contract = Contract(sums={"j": Steps(4)}, algorithm=ONLINE)
    assert results(huge, contract, flash(huge, 4)) == ["pass", "pass"]
    assert results(huge, replace(contract, algorithm={}), flash(huge, 4)) != ["pass", "pass"]


def test_the_gradient_is_that_of_the_formula() -> None:
    names = {"q", "k", "v", "bias", "o", *MODES}
    random = np.random.default_rng(2)
    shapes = {"q": (1, 1, 2, 3, 4), "k": (1, 1, 5, 4), "v": (1, 1, 5, 2), "bias": (1, 2, 3, 5), "do": (1, 1, 2, 3, 2)}
    tensors = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    one, two = (gradient(traced(OPS["attention"], names, ways), "o", ("q", "v")) for ways in ({}, ONLINE))
    found = [evaluate(Inputs(each, tensors, MODES), Float64()) for each in (one, two)]
    for name in ("dq", "dv"):
        assert np.allclose(found[0][one.outputs[name]], found[1][two.outputs[name]], rtol=1e-10)


def test_shares_are_exponentials_of_differences() -> None:
    def wrong(x: Node, v: Node) -> Mapping[str, Node]:
        return {"y": online_dot(x - greatest(x, "n"), v, "n") / online_dot(exp(x), v, "n")}

    with pytest.raises(FormulaError, match=r"no exp\(score - maximum\)"):
        trace(wrong, {"x": ("n",), "v": ("n",)})
