"""What follows from a value that some kernels carry beyond the largest number: a few values, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import Contract
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE, stored_as
from oracles.summation import Lanes
from oracles.tests.common.judged import results
from oracles.truth import Truth

LARGE = 3.0e38


def _matmul(a: list[float], b: list[float], **others: Any) -> Problem:
    given = {"a": np.array([[a]], np.float32), "b": np.array([[[each] for each in b]], np.float32)}
    return Problem("matmul", others, given, {"c": "f32"})


def _elementwise(op: str, *values: float) -> Problem:
    x = np.array([values], np.float32)
    given = {"x": x} | ({"dy": np.full_like(x, 1.5)} if op.endswith("backward") else {})
    return Problem(op, {}, given, {"dx" if "dy" in given else "y": "f32"})


def _said(of: Problem, value: float, contract: Contract | None = None) -> str:
    """What is said of outputs that are all one value."""
    shape = (1, 1, 1) if of.op == "matmul" else next(iter(of.inputs.values())).shape
    outputs: Mapping[str, NDArray[Any]] = {name: np.full(shape, value, np.float32) for name in of.outputs}
    return results(of, contract or Contract(), outputs)[0]


@pytest.mark.parametrize("value", [1.5e38, np.inf, -np.inf, np.nan])
def test_a_sum_that_may_overflow_is_its_value_or_no_number(value: float) -> None:
    of = _matmul([LARGE, -LARGE, LARGE, -LARGE, 1.5e38], [1.0] * 5)
    assert _said(of, value) == "pass"


@pytest.mark.parametrize("value", [0.0, 1.4e38, -1.5e38, 1.0, 3.4e38])
def test_a_sum_that_may_overflow_is_no_other_number(value: float) -> None:
    of = _matmul([LARGE, -LARGE, LARGE, -LARGE, 1.5e38], [1.0] * 5)
    assert _said(of, value) != "pass"


def test_what_is_cut_off_at_zero_after_a_sum_that_may_overflow_is_not_negative() -> None:
    of = _matmul([LARGE, -LARGE, LARGE, -LARGE, 1.5e38], [1.0] * 5, relu=1.0)
    assert [_said(of, value) for value in (1.5e38, 0.0, np.inf, np.nan)] == ["pass"] * 4
    assert [_said(of, value) != "pass" for value in (-1.0, 3e38, -np.inf)] == [True, True, False]


@pytest.mark.parametrize("op", ["gelu", "gelu_tanh"])
def test_minus_infinity_times_what_may_be_zero_leaves_no_number(op: str) -> None:
    of = _elementwise(op, -np.inf)
    others = "pass" if op == "gelu" else "nonfinite"  # a hyperbolic tangent of that is -1 in every kernel
    assert [_said(of, value) for value in (np.nan, -np.inf, np.inf)] == ["pass", others, others]
    assert [_said(of, value) != "pass" for value in (1.0, -3e38, 1e-30)] == [True] * 3


@pytest.mark.some(1)
@pytest.mark.parametrize("x", [20.0, 1e10, 3e12, 1e15, 2e19, LARGE])
def test_a_gradient_is_judged_where_the_hyperbolic_tangent_is_one(x: float) -> None:
    """With 1 - t^2 = 0 dx is dy, or 0; where the square overflows 0 times that is NaN."""
    contract, of = Contract(), _elementwise("gelu_tanh_backward", x)
    assert _said(of, 1.5, contract) == "pass"
    assert [_said(of, value, contract) != "pass" for value in (1.0, 0.0, 2.0, -1e30, 1e38)] == [True] * 5
    assert (_said(of, np.nan, contract) == "pass") == (x > 1.9e19)
    below = _elementwise("gelu_tanh_backward", -x)
    assert _said(below, 0.0, contract) == "pass"
    assert [_said(below, value, contract) != "pass" for value in (1.5, 1e-3, -1e30, 1e38)] == [True] * 4


@pytest.mark.parametrize("x", [-6.0, -8.0])
def test_the_exact_gradient_is_right_where_the_hyperbolic_tangent_is_one_in_float32(x: float) -> None:
    """Its 1 - t^2 is 6e-11 and 2e-21; the latter is 0 in f64 as well."""
    of = _elementwise("gelu_tanh_backward", x)
    bounds = Truth(of).bounds(Contract("f64"), "dx", (0, 0), False)
    assert bounds is not None
    exact = float(bounds.centre)
    assert -1e-8 < exact < -1e-22
    assert [_said(of, value) == "pass" for value in (exact, 0.0, 1.001 * exact, -exact)] == [True, True, False, False]


def test_a_function_within_many_ulp_need_not_reach_its_limit() -> None:
    of, loose = _elementwise("gelu_tanh_backward", 1e15), Contract(accuracy={"tanh": 64.0})
    assert (_said(of, 1e20), _said(of, 1e20, loose)) == ("numeric", "pass")


def test_the_variance_of_numbers_of_all_sizes_leaves_zero_or_nan_of_what_overflows() -> None:
    x = np.array([LARGE, -LARGE, 1e38, 1.0], np.float32).reshape(1, 1, 1, 4)
    of = Problem("group_norm", {"eps": 1e-5}, {"x": x}, {"y": "f32"})
    exact = (x - x.mean(dtype=np.float64)) / x.std(dtype=np.float64)
    for y, said in ((exact, True), (0 * exact, True), (exact * np.nan, True), (exact * 1.1, False), (0 * x + 7, False)):
        assert (results(of, Contract(), {"y": y.astype(np.float32)}) == ["pass"]) == said


@pytest.mark.parametrize("op", ["quantize_rows", "quantize_rows_e4m3"])
def test_codes_of_subnormal_steps_have_the_sign_of_their_elements(op: str) -> None:
    x = (np.array([[100, -80, 60, -100]]) * 2.0**-149).astype(np.float32)
    stored = stored_as(OPS[op].operand("q").dtype)
    of = Problem(op, {}, {"x": x}, {"q": OPS[op].operand("q").dtype})
    most = 127 if op == "quantize_rows" else 448
    right = np.array([[most, -most, most, -most]]).astype(stored)
    assert results(of, Contract(), {"q": right}) == ["pass"]
    assert results(of, Contract(), {"q": (-right.astype(np.float64)).astype(stored)}) != ["pass"]


def _attention(
    dtype: str, keys: list[float], values: list[float], scale: float = 1.0, *, paged: bool = False
) -> Problem:  # fmt: skip
    """One query of 1 on keys of one element."""
    q, k, v = (np.array(each, STORAGE[dtype]) for each in ([1.0], keys, values))
    if paged:
        given = {"q": q.reshape(1, 1, 1, 1), "k": k.reshape(-1, 1, 1, 1), "v": v.reshape(-1, 1, 1, 1)}
        pages = {"table": np.arange(len(k), dtype=np.int32)[None], "lengths": np.array([len(k)], np.int32)}
        return Problem("paged_attention", {"softmax_scale": scale}, given | pages, {"o": dtype})
    given = {"q": q.reshape(1, 1, 1, 1, 1), "k": k.reshape(1, 1, -1, 1), "v": v.reshape(1, 1, -1, 1)}
    return Problem("attention", {"softmax_scale": scale}, given, {"o": dtype})


def _which(of: Problem, contract: Contract, *each: float) -> list[str]:
    """What is said of some values of the one element."""
    shape = (1, 1, 1, 1) if of.op == "paged_attention" else (1, 1, 1, 1, 1)
    dtype = STORAGE[of.outputs["o"]]
    return [results(of, contract, {"o": np.full(shape, value, dtype)})[0] for value in each]


@pytest.mark.some(1)
@pytest.mark.parametrize("value", [-2097152.0, 98304.0])
def test_a_value_that_is_moved_keeps_its_dtype_and_overflows_where_it_is_taken(value: float) -> None:
    """No number of f16: what is chosen by a mask stays the number of bf16 that it was, and its product is infinite."""
    of = _attention("bf16", [32768.0], [value], paged=True)
    said = _which(of, Contract("f16"), value, np.copysign(np.inf, value), -value, np.copysign(np.inf, -value))
    assert said[:2] == ["pass", "pass"]
    assert "pass" not in said[2:]


def test_a_mean_beside_a_share_of_zero_times_infinity_is_nan() -> None:
    """Also where so large a score is off by so much that the bound of its sum of exponentials is lost."""
    of = _attention("f32", [1e10, 0.0], [1.0, np.inf], 0.0883883461356163)
    of = replace(of, inputs={**of.inputs, "bias": np.full((1, 1, 1, 2), 0.5, np.float32)})
    for contract in (Contract(), Contract(algorithm={"o": "sum"})):
        assert _which(of, contract, np.nan, 1.0)[0] == "pass"


def test_a_sum_that_is_scaled_again_may_be_nan_beside_an_infinite_term() -> None:
    """65,504 times a share that is rounded to more than 1 overflows, and the factor that follows is zero."""
    of = _attention("f32", [-60.0, 0.0], [65500.0, 524608.0])
    contract = Contract("f16", algorithm={"acc": "online"}, sums={"j": Lanes(8, 2, "scalar")}, accuracy={"exp": 4.0})
    said = _which(of, contract, np.nan, np.inf, 524608.0, 0.0, -np.inf)
    assert said[:3] == ["pass"] * 3
