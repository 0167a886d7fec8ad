"""Op `matmul`: whole numbers exactly, NaN through relu, no terms at all, and how narrow each order of its sums is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import AnyOrder, Blocks, Contract, Lanes, Sequential, Summation
from oracles.problem import Problem
from oracles.tests.common.judged import results, simulated

Array = NDArray[Any]


def problem(a: Array, b: Array, bias: Array | None = None, *, relu: float = 0.0, structured: bool = False) -> Problem:
    inputs = {"a": a, "b": b, **({} if bias is None else {"bias": bias})}
    return Problem("matmul", {"relu": relu, "axis": a.ndim - 1}, inputs, {"c": "f32"}, structured)


def normal(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def smallest_wrong(of: Problem, order: Summation) -> float:
    """The smallest relative error of the whole result that fails."""
    exact = of.inputs["a"].astype(np.float64) @ of.inputs["b"].astype(np.float64)
    errors = [2.0**-power for power in range(24, 8, -1)]
    contract = Contract(sums={"k": order})
    return next(e for e in errors if results(of, contract, {"c": (exact * (1 + e)).astype(np.float32)}) != ["pass"])


def test_whole_numbers_are_judged_with_tolerance_0() -> None:
    random = np.random.default_rng(2)
    a, b = (random.integers(-127, 128, shape).astype(np.float32) for shape in ((5, 64), (64, 7)))
    right = a @ b
    assert results(problem(a, b), Contract(sums={"k": AnyOrder()}), {"c": right}) == ["pass"]
    for element in ((0, 0), (4, 6)):
        wrong = right.copy()
        wrong[element] += 1
        assert results(problem(a, b), Contract(sums={"k": AnyOrder()}), {"c": wrong}) != ["pass"]


def test_relu_keeps_nan_and_the_bias_is_what_is_left_without_terms() -> None:
    a, b, bias = normal(2, 3, 0), normal(2, 0, 4), np.array([1.0, -2.0, np.nan, 0.5], np.float32)
    for relu, want in ((0.0, bias), (1.0, np.array([1.0, 0.0, np.nan, 0.5], np.float32))):
        found = np.broadcast_to(want, (2, 3, 4)).copy()
        assert results(problem(a, b, bias, relu=relu), Contract(), {"c": found}) == ["pass"]
    swallowed = np.broadcast_to(np.array([1.0, 0.0, 0.0, 0.5], np.float32), (2, 3, 4)).copy()
    assert results(problem(a, b, bias, relu=1.0), Contract(), {"c": swallowed}) != ["pass"]


@pytest.mark.parametrize("order", [Sequential(), Lanes(1, 2, "predicated"), Blocks(16), AnyOrder()])
@pytest.mark.parametrize("k", [1, 17, 200])
def test_correct_kernels_of_every_order_pass(order: Summation, k: int) -> None:
    contract = Contract(sums={"k": order})
    of = problem(normal(2, 3, k), normal(2, k, 4, seed=2), normal(4, seed=3), relu=1.0)
    for seed in range(4):
        assert results(of, contract, simulated(of, contract, seed)) == ["pass"]


def truncated(a: Array, b: Array, block: int) -> Array:
    """Sums of blocks, each added to what there is with bits cut off at 24."""
    sums = np.zeros((a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], block):
        sums = sums + a[:, start : start + block].astype(np.float64) @ b[start : start + block].astype(np.float64)
        mantissa, exponent = np.frexp(sums)
        sums = np.ldexp(np.trunc(mantissa * 2.0**24), exponent - 24)
    return sums.astype(np.float32)


def test_what_truncates_passes_as_that_alone() -> None:
    """A constant product of 1024 terms, of which some cores add 4 at once, loses as much at each step."""
    a, b = np.full((4, 1024), 0.7, np.float16), np.full((1024, 4), 0.3, np.float16)
    of, got = problem(a, b, structured=True), {"c": truncated(a, b, 4)}
    assert results(of, Contract(sums={"k": Blocks(4, truncates=True)}), got) == ["pass"]
    assert results(of, Contract(sums={"k": Lanes(8, 4, "scalar")}), got) != ["pass"]


@pytest.mark.whole
def test_blocks_in_any_order_are_narrower_than_any_order() -> None:
    of = problem(np.abs(normal(4, 1024)), np.abs(normal(1024, 4, seed=2)))
    found = [smallest_wrong(of, order) for order in (AnyOrder(), Blocks(16), Lanes(8, 4, "predicated"))]
    assert found[0] >= 2 * found[1] >= 2 * found[2]
