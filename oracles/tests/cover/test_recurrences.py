"""Linear recurrences and products along a dimension: exact values, budgets of every order, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.doubledouble import DoubleDouble
from oracles.formula import trace as f
from oracles.formula.affine.budget import Budget
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Double, Float64, Precise
from oracles.formula.exact.centre import Exact, Inputs, evaluate
from oracles.formula.exact.extended import Extended
from oracles.formula.exact.rigorous import Near, Rigorous, recurred
from oracles.formula.trace import FormulaError, Node, Outputs, Trace, trace
from oracles.problem import Problem
from oracles.simulated.simulation import ORDERS, Simulated
from oracles.summation import AnyOrder, Sequential, Summation
from oracles.tests.common.gradients import gradient
from oracles.tests.common.simulated import allowed
from oracles.truth import Truth

_DIMS = {"a": ("m", "t"), "b": ("m", "t"), "s": ("m",)}
_ROWS, _LONG = 3, 60


def recurrence(a: Node, b: Node) -> Outputs:
    return {"y": f.scan(a, b, "t")}


def begun(a: Node, b: Node, s: Node) -> Outputs:
    return {"y": f.scan(a, b, "t", s)}


def products(a: Node) -> Outputs:
    return {"y": f.cumprod(a, "t")}


def product(a: Node) -> Outputs:
    return {"y": f.prod(a, "t")}


def slow(b: Node) -> Outputs:
    """A moving average, whose factor is a number."""
    return {"y": f.scan(0.75, 0.25 * b, "t")}


_FORMULAS: Mapping[Callable[..., Outputs], str] = {
    recurrence: "ab",
    begun: "abs",
    products: "a",
    product: "a",
    slow: "b",
}
_FACTORS: Mapping[str, Callable[[np.random.Generator], NDArray[Any]]] = {
    "decay": lambda random: random.random((_ROWS, _LONG)),
    "near one": lambda random: 1.0 + 0.1 * random.normal(size=(_ROWS, _LONG)),
    "growing": lambda random: 4.0 * random.normal(size=(_ROWS, _LONG)),
    "vanishing": lambda random: 2.0 ** random.integers(-60, 60, (_ROWS, _LONG)) * random.normal(size=(_ROWS, _LONG)),
}


def _graph(formula: Callable[..., Outputs]) -> Trace:
    return trace(formula, {name: _DIMS[name] for name in _FORMULAS[formula]})


def _inputs(graph: Trace, factors: str, seed: int = 0) -> Inputs:
    random = np.random.default_rng(seed)
    drawn = {
        "a": _FACTORS[factors](random), "b": random.normal(size=(_ROWS, _LONG)), "s": random.normal(size=_ROWS),
    }  # fmt: skip
    return Inputs(graph, {name: drawn[name].astype(np.float32) for name in graph.tensors}, {})


_each = pytest.mark.parametrize("formula", _FORMULAS, ids=lambda each: each.__name__)


@_each
def test_all_arithmetics_agree(formula: Callable[..., Outputs]) -> None:
    """With a loop by hand too, and the precise one of single elements."""
    graph = _graph(formula)
    inputs, out = _inputs(graph, "near one"), graph.outputs["y"]
    exact = evaluate(inputs, Precise())[out].astype(np.float64)
    assert np.allclose(evaluate(inputs, Float64())[out], exact, rtol=1e-12)
    near = evaluate(inputs, Rigorous())[out]
    assert (np.abs(near.value - exact) <= near.error).all()
    for arithmetic in (Double(), Extended()):
        found = evaluate(inputs, arithmetic)[out]
        doubled = found if isinstance(found, DoubleDouble) else found.doubled
        assert np.allclose(doubled.high, exact, rtol=1e-15)
    tensors = {name: inputs.tensors[name].astype(np.float64) for name in graph.tensors}
    ones = np.ones((_ROWS, _LONG))
    a, b = (tensors.get(name, 0.0 * ones) for name in "ab")
    a, b = (0.75 * ones, 0.25 * b) if formula is slow else (a, b)
    h = tensors["s"] if formula is begun else np.full(_ROWS, float(formula in (products, product)))
    for place in range(_LONG):
        h = a[:, place] * h + b[:, place]
    last = exact if formula is product else exact[:, -1:]
    assert np.allclose(h, last[:, 0], rtol=1e-12)
    with mpmath.workprec(100):
        at = {"m": 1} if formula is product else {"m": 1, "t": 7}
        one = Exact(inputs).element(out, at)
        assert float(one) == pytest.approx(exact[tuple(at.get(dim, 0) for dim in graph.dims)], rel=1e-14)


@pytest.mark.some(1)
@_each
@pytest.mark.parametrize("factors", _FACTORS)
@pytest.mark.parametrize("order", [AnyOrder(), Sequential()], ids=["any", "sequential"])
def test_right_kernels_of_every_order_lie_within_the_budget(
    formula: Callable[..., Outputs], factors: str, order: Summation
) -> None:
    """One place after the other, in blocks that are carried on, as a tree; fused and not, flushing and not."""
    graph, random = _graph(formula), np.random.default_rng(1)
    inputs = _inputs(graph, factors)
    for denormals in ("preserve", "flush"):
        contract = Contract("f32", sums={"t": order}, denormals=denormals, nonfinite="unspecified")
        budget = Budget(inputs, contract)
        for way in ORDERS:
            for fused in (False, True):
                got = Simulated(inputs, contract, random, way, fused).output("y", "f32")
                assert allowed(budget, "y", "f32", got).all()


@pytest.mark.parametrize("formula", [recurrence, products], ids=["recurrence", "products"])
def test_the_budget_is_no_wider_than_a_few_roundings_a_place(formula: Callable[..., Outputs]) -> None:
    """A factor that is off by 2^-12, one step that is left out, and what starts a place too late lie outside."""
    graph = _graph(formula)
    inputs, out = _inputs(graph, "near one"), graph.outputs["y"]
    budget = Budget(inputs, Contract("f32", sums={"t": AnyOrder()}, nonfinite="unspecified"))
    right = evaluate(inputs, Float64())[out]
    coarse = Inputs(graph, {name: each * np.float32(1 + 2.0**-12) for name, each in inputs.tensors.items()}, {})
    late = np.concatenate([right[:, :1], right[:, :-1]], 1)
    for wrong in (evaluate(coarse, Float64())[out], late):
        inside = allowed(budget, "y", "f32", wrong.astype(np.float32).astype(np.float64))
        assert not inside[:, 1:].any(axis=0).all()
        assert inside.mean() < 0.1


@_each
def test_its_gradient_is_what_differences_say(formula: Callable[..., Outputs]) -> None:
    names = [*_FORMULAS[formula]]
    found = gradient(_graph(formula), "y", names)
    assert [*found.outputs] == [f"d{name}" for name in names]


def test_what_lacks_the_dimension_is_refused() -> None:
    with pytest.raises(FormulaError, match="scan over 't': the factor or what is added has it"):
        trace(lambda s, b: {"y": f.scan(s, 1.0, "t")}, {"s": ("m",), "b": ("t",)})
    with pytest.raises(FormulaError, match="and the start has not"):
        trace(lambda b: {"y": f.scan(0.5, b, "t", b)}, {"b": ("t",)})


def test_of_no_elements_there_is_nothing_and_their_product_is_one() -> None:
    for formula, wanted in ((recurrence, []), (product, [1.0])):
        graph = _graph(formula)
        inputs = Inputs(graph, {name: np.zeros((1, 0), np.float32) for name in graph.tensors}, {})
        for arithmetic in (Float64(), Precise()):
            assert evaluate(inputs, arithmetic)[graph.outputs["y"]].reshape(-1).tolist() == wanted
        for order in ORDERS:
            contract = Contract("f32", sums={"t": AnyOrder()})
            kernel = Simulated(inputs, contract, np.random.default_rng(1), order)
            assert kernel.output("y", "f32").reshape(-1).tolist() == wanted
        kept = Budget(inputs, Contract("f32")).output("y", "f32")
        assert kept.centre.reshape(-1).tolist() == wanted


def test_sums_of_nothing_but_zeros_have_a_budget_in_order() -> None:
    """What is exact at the first place has fewer axes than at the next."""
    x = np.zeros((6, 5), np.float32)
    truth = Truth(Problem("cumsum", {"axis": 1}, {"x": x}, {"y": "f32"}))
    in_order = Contract("f32", sums={"n": Sequential()})
    assert [check.result for check in truth.check(in_order, {"y": x})] == ["pass"]
    assert [check.failing for check in truth.check(in_order, {"y": x + np.float32(1e-30)})] == [30]


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("order", [AnyOrder(), Sequential()], ids=["any", "sequential"])
def test_what_a_nan_or_an_infinity_leaves_is_known(wild: float, order: Summation) -> None:
    """Every kernel has it from there on, however it goes, where no product of factors vanishes on the way."""
    graph, random = _graph(recurrence), np.random.default_rng(2)
    tensors = {name: each.copy() for name, each in _inputs(graph, "near one").tensors.items()}
    tensors["b"][1, 5] = wild
    inputs, contract = Inputs(graph, tensors, {}), Contract("f32", sums={"t": order})
    form = Budget(inputs, contract).output("y", "f32")
    assert form.may is None
    assert not form.spread[1, 5:].any()
    assert not np.isfinite(form.centre[1, 5:]).any()
    for way in ORDERS:
        got = Simulated(inputs, contract, random, way, way == "tree").output("y", "f32")
        assert np.array_equal(got[1, 5:], form.centre[1, 5:], equal_nan=True)
    tensors["a"] = tensors["a"] * np.float32(2.0**-60)
    assert (Budget(Inputs(graph, tensors, {}), contract).output("y", "f32").may is None) == bool(np.isnan(wild))


def test_a_state_that_vanishes_in_f64_may_do_so_before_a_huge_gate() -> None:
    """2.5e-462 is no number of f64; a kernel has 0 there, and of 0 nothing grows."""
    gate, h0 = np.array([[1e-154, -(2.0**1023)]]), np.array([-(2.0**-1022)])
    of = Problem("linear_recurrence", {}, {"x": np.zeros((1, 2)), "gate": gate, "h0": h0}, {"hs": "f64"})
    for last, said in ((0.0, "pass"), (2e-154, "pass"), (1e-14, "numeric")):
        assert Truth(of).check(Contract("f64"), {"hs": np.array([[-0.0, last]])})[0].result == said


@pytest.mark.parametrize("errs", [(), ("a",), ("b",), ("a", "b", "h")])
def test_a_recurrence_that_bounds_its_own_error_is_its_operations_place_by_place(errs: tuple[str, ...]) -> None:
    """Bit for bit; the errors, also of numbers that overflow or underflow, but for their own roundings."""
    rng, count = np.random.default_rng(len(errs)), 40
    a, b = (rng.standard_normal((6, count)) * 2.0 ** rng.integers(-2, 2, (6, count)) for _ in range(2))
    h = rng.standard_normal((6, 1))
    a[1, 5:], b[2, 7], a[3, 9], b[3, 3] = 1e40, np.inf, np.nan, -np.inf
    a[4] *= 1e-20
    b[4], b[5], h[5] = 0.0, 0.0, 0.0
    near = {
        name: Near(values, rng.random(values.shape) * 1e-12 if name in errs else 0.0)
        for name, values in (("a", a), ("b", b), ("h", h))
    }
    with np.errstate(all="ignore"):
        found, each, rigorous = recurred(near["a"], near["b"], near["h"], 1, count), near["h"], Rigorous()
        for at in range(count):
            place = slice(None), slice(at, at + 1)
            each = rigorous.operate("add", rigorous.operate("multiply", near["a"][place], each), near["b"][place])
            assert found.value[place].tobytes() == each.value.tobytes()
            expected, error = np.broadcast_to(each.error, each.shape), np.asarray(found.error)[place]
            np.testing.assert_allclose(error, expected, rtol=1e-12, atol=0.0)
