"""What a formula says of signs of zero, of casts that saturate and of values that are not finite; both tiers alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from oracles.dtypes import form
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, sqrt, tanh, total, where
from oracles.op import Op
from oracles.operand import Operand, OpError, Parameter
from oracles.ops import OPS as KNOWN
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import AnyOrder
from oracles.tests.common.judged import X, known, results, simulated
from oracles.truth import Truth

WEIGHT = Operand("weight", "n", optional=True)


def toy_product(x: Node, weight: Node | None = None) -> Outputs:
    """y = x * weight."""
    return {"y": x if weight is None else x * weight}


def toy_shifted(x: Node, weight: Node | None = None) -> Outputs:
    """y = x + weight."""
    return {"y": x if weight is None else x + weight}


def toy_sum(x: Node, weight: Node) -> Outputs:
    """y = x + weight."""
    return {"y": x + weight}


def toy_gated(x: Node, weight: Node) -> Outputs:
    """y = weight, or -0 where x is not above zero."""
    return {"y": where(x > 0.0, weight, -0.0)}


def toy_scaled(x: Node, weight: Node) -> Outputs:
    """y = x / sum(x) * weight."""
    return {"y": x / total(x, "n") * weight}


OPS = [
    Op(
        formula,
        inputs=(X, Operand("weight", "n", optional=formula in (toy_product, toy_shifted))),
        outputs=(Operand("y", "... n"),),
    )
    for formula in (toy_product, toy_shifted, toy_sum, toy_gated, toy_scaled)
]


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with known(*OPS):
        yield


def _said(of: Problem, contract: Contract, got: list[float]) -> list[bool]:
    """What is said of each element, by both tiers."""
    truth, values = Truth(of), np.array([got])
    comparison = compare(truth.enclosures(contract, False)["y"], values)
    found = []
    for column, value in enumerate(got):
        bounds = truth.bounds(contract, "y", (0, column), False)
        assert bounds is not None
        found.append(conforms(bounds, value))
        assert comparison.unsure[0, column] or comparison.failing[0, column] is not found[-1]
        assert bool(comparison.failing[0, column]) is not found[-1] or comparison.unsure[0, column]
    return found


def _problem(op: str, x: list[float], weight: list[float] | None, out: str = "f32") -> Problem:
    inputs = {"x": np.array([x], np.float32)}
    if weight is not None:
        inputs["weight"] = np.array(weight, np.float32)
    return Problem(op, {}, inputs, {"y": out})


def test_the_sign_of_a_zero_is_required_where_all_kernels_have_it() -> None:
    product = _problem("toy_product", [0.0, -0.0, -2.0, 1e-40], [-0.0, -1.0, 0.0, -1e-30])
    assert _said(product, Contract(), [-0.0, 0.0, -0.0, -0.0]) == [True] * 4
    assert _said(product, Contract(), [0.0, -0.0, 0.0, 0.0]) == [False] * 4
    assert _said(product, Contract(zeros="any"), [0.0, -0.0, 0.0, 0.0]) == [True] * 4
    gated = _problem("toy_gated", [0.0, -2.0, 1.0], [3.0, 3.0, 0.0])
    assert _said(gated, Contract(), [-0.0, -0.0, 0.0]) == [True] * 3, "a number of the formula has its own sign"
    assert _said(gated, Contract(), [0.0, 0.0, -0.0]) == [False] * 3


def test_the_sign_of_a_zero_is_free_where_kernels_may_differ() -> None:
    either = _problem("toy_sum", [0.0, -0.0, 1.0, -0.0], [-0.0, 0.0, -1.0, -0.0])
    assert _said(either, Contract(), [0.0, 0.0, 0.0, -0.0]) == [True] * 4
    assert _said(either, Contract(), [-0.0, -0.0, -0.0, 0.0]) == [True, True, True, False]
    absent = _problem("toy_product", [0.0, -0.0], None)
    assert _said(absent, Contract(), [-0.0, 0.0]) == [False] * 2, "no kernel adds a zero for a factor"
    absent = Problem("toy_shifted", {}, {"x": np.array([[0.0, -0.0]], np.float32)}, {"y": "f32"})
    assert _said(absent, Contract(), [-0.0, 0.0]) == [True] * 2, "a kernel may add a zero instead"


@pytest.mark.parametrize("out", ["f16", "e5m2", "e4m3fn"])
def test_a_cast_that_saturates_leaves_the_largest_number(out: str) -> None:
    of = _problem("toy_product", [1e30, -1e30, 1.0, 1e-3], [1e3, 1e3, 1e6, 1.0], out)
    top = {"f16": 65504.0, "e5m2": 57344.0, "e4m3fn": 448.0}[out]
    assert _said(of, Contract(saturate=True), [top, -top, top, 2.0**-9]) == [True, True, True, out == "e4m3fn"]
    assert _said(of, Contract(saturate=True), [np.nan] * 4) == [False] * 4
    assert _said(of, Contract(), [top, -top, top, np.nan]) == [False] * 4
    lost = np.nan if out == "e4m3fn" else np.inf
    assert _said(of, Contract(), [lost, lost, lost, 0.5]) == [True, out == "e4m3fn", True, False]


def test_what_is_not_finite_is_judged_unless_it_is_unspecified() -> None:
    of = _problem("toy_scaled", [1.0, np.inf, -1.0, 0.0], [1.0, 1.0, np.nan, 2.0])
    assert _said(of, Contract(), [0.0, np.nan, np.nan, 0.0]) == [True] * 4
    assert _said(of, Contract(), [1.0, 1.0, 1.0, 1.0]) == [False] * 4
    fast = Contract(nonfinite="unspecified")
    assert _said(of, fast, [7.0, 7.0, 7.0, 7.0]) == [True] * 4
    plain = _problem("toy_scaled", [1.0, 2.0, 1.0, 0.0], [1.0, 1.0, 1.0, 2.0])
    assert _said(plain, fast, [7.0, 0.5, np.nan, np.inf]) == [False, True, False, False]


def none_below(x: Node) -> Outputs:
    """y = x in rows whose sum is positive, else 0."""
    mass = total(x, "n")
    return {"y": where(mass <= 0.0, 0.0, x)}


@pytest.mark.parametrize("n", [1, 3])
def test_a_row_that_kernels_may_see_either_way_may_be_either(n: int) -> None:
    """All elements of a row ask one mask, which is in doubt: of a sum that cancels in one order, and not in another."""
    op = Op(none_below, inputs=(X,), outputs=(Operand("y", "... n"),))
    x = np.tile(np.array([[1e8, 1.0, -1e8]], np.float32), (1, n))
    with known(op):
        of = Problem("none_below", {}, {"x": x}, {"y": "f32"})
        for y in (x, np.zeros_like(x)):
            assert results(of, Contract(sums={"n": AnyOrder()}), {"y": y}) == ["pass"]
        assert results(of, Contract(sums={"n": AnyOrder()}), {"y": x + np.float32(8)}) == ["numeric"]


def third_of_product(x: Node, g: Node) -> Outputs:
    """y = (x / 3) g."""
    third = x / 3.0
    return {"y": third * g}


def test_a_flushed_subnormal_of_float64_is_as_far_off_as_the_exact_value() -> None:
    """Float64 rounds x / 3 to a few bits there, now and then downwards: 4096 times what it lost is missing then."""
    op = Op(third_of_product, inputs=(X, Operand("g", "... n")), outputs=(Operand("y", "... n"),))
    x = np.arange(1, 41, dtype=np.float64)[None] * 2.0**-1074
    with known(op):
        of = Problem("third_of_product", {}, {"x": x, "g": np.full_like(x, 4096.0)}, {"y": "f64"}, structured=True)
        for denormals in ("flush", "flush results"):
            assert results(of, Contract("f64", denormals=denormals), {"y": np.zeros_like(x)}) == ["pass"]
        assert results(of, Contract("f64"), {"y": np.zeros_like(x)}) == ["numeric"]


def clipped(x: Node, *, low: Node, high: Node) -> Outputs:
    """y = x, and no less than low, and no more than high."""
    least = where(x <= low, low, x)
    return {"y": where(high <= least, high, least)}


def gated(x: Node, g: Node) -> Outputs:
    """y = x / 8 where g is positive."""
    return {"y": where(g <= 0.0, 0.0, 0.125 * x)}


GATED = Op(gated, (X, Operand("g", "... n")), (Operand("y", "... n"),))
CLIPPED = Op(clipped, (X,), (Operand("y", "... n"),), (Parameter("low", (0.0,)), Parameter("high", (1.0,))))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_what_is_chosen_may_be_flushed_where_the_contract_allows_it(dtype: str) -> None:
    """Instructions that choose the larger of two take a subnormal for zero then, as maxps does."""
    x = np.full((1, 4), form(dtype).tiny / 2).astype(STORAGE[dtype])
    with known(CLIPPED, GATED):
        for of in (
            Problem("clipped", {"low": 0.0, "high": 1.0}, {"x": x}, {"y": dtype}),
            Problem("gated", {}, {"x": 8 * x, "g": np.ones_like(x)}, {"y": dtype}),
        ):
            for denormals in ("flush", "flush operands", "flush results"):
                assert results(of, Contract("input", denormals=denormals), {"y": np.zeros_like(x)}) == ["pass"]
            assert results(of, Contract("input"), {"y": np.zeros_like(x)}) == ["numeric"]


@pytest.mark.parametrize(("dtype", "compute"), [("bf16", "f16"), ("f64", "bf16")])
def test_what_is_compared_and_chosen_keeps_the_dtype_that_it_has(dtype: str, compute: str) -> None:
    """A kernel that flushes flushes what is subnormal there, not in the dtype that other operations have."""
    x = (2.0 ** -np.arange(-2, 60, dtype=np.float64)[None]).astype(STORAGE[dtype])
    with known(CLIPPED):
        of = Problem("clipped", {"low": 0.0, "high": 1.0}, {"x": x}, {"y": dtype})
        contract = Contract(compute, denormals="flush")
        for seed in range(8):
            assert results(of, contract, simulated(of, contract, seed)) == ["pass"]


def over_length(x: Node) -> Outputs:
    """y = x / sqrt(sum(x x))."""
    length = sqrt(total(x * x, "n"))
    return {"y": x / length}


def test_a_tiny_element_of_a_huge_row_in_float64_keeps_the_errors_of_the_length() -> None:
    """x / length^2 underflows, and times the length's errors it would not: these are many ulp of y."""
    op = Op(over_length, inputs=(X,), outputs=(Operand("y", "... n"),))
    x = np.array([[4.4e-98, 1.9e146, 3e145, -1.1e146]])
    with known(op):
        of = Problem("over_length", {}, {"x": x}, {"y": "f64"}, structured=True)
        found = simulated(of, Contract("f64"))
        for ulps, result in ((0, "pass"), (1, "pass"), (-1, "pass"), (20, "numeric")):
            moved = found["y"] + ulps * np.spacing(found["y"])
            assert results(of, Contract("f64"), {"y": moved}) == [result]


def curved(x: Node) -> Outputs:
    """y = tanh(x) x."""
    return {"y": tanh(x) * x}


def test_a_simulated_kernel_in_float64_errs_by_no_more_than_a_function_may() -> None:
    """Float64's own tanh is off by 3 u at most, which is not the kernel's."""
    op, contract = Op(curved, (X,), (Operand("y", "... n"),)), Contract("f64")
    of = Problem(
        "curved", {}, {"x": np.random.default_rng(1).uniform(-1, 1, (1, 20000))}, {"y": "f64"}, structured=True
    )
    with known(op):
        assert [results(of, contract, simulated(of, contract, seed)) for seed in range(4)] == [["pass"]] * 4


def test_a_signaling_nan_is_judged_without_a_warning() -> None:
    """Where NaN is expected a kernel may return any; and with a NaN among them zeros have signs all the same."""
    x = np.array([[np.nan, 0.0, 1.0]])
    of = Problem("toy_product", {}, {"x": x}, {"y": "f64"}, structured=True)
    signaling, wrong = x.copy(), x.copy()
    signaling.view(np.uint64)[0, 0] = wrong.view(np.uint64)[0, 0] = 0x7FF0000000000001
    wrong[0, 1] = -0.0
    contract = Contract(compute="f64")
    assert [check.result for y in (signaling, wrong) for check in Truth(of).check(contract, {"y": y})] == [
        "pass",
        "numeric",
    ]


def test_what_is_left_open_is_an_algorithm() -> None:
    with pytest.raises(OpError, match="open_ways: most has no algorithm 'lower'"):
        replace(KNOWN["logsumexp"], open_ways={"most": ("formula", "lower")})


def test_a_row_with_an_infinity_has_that_logsumexp_or_none_as_the_contract_says() -> None:
    x = np.array([[1, np.inf], [np.inf, np.inf], [-np.inf, -np.inf], [np.nan, np.inf], [1, -np.inf]], np.float32)
    limits, shifted = ([np.inf, np.inf, -np.inf, np.nan, 1.0], [np.nan, np.nan, np.nan, np.nan, 1.0])
    of = Problem("logsumexp", {}, {"x": x}, {"y": "f32"})
    for contract, right in ((Contract(algorithm={"most": "finite"}), limits), (Contract(), shifted)):
        for y in (limits, shifted):
            (check,) = Truth(of).check(contract, {"y": np.array(y, np.float32)})
            assert check.failing == (0 if y is right else 3)
