"""Kernels that calculate in float64 are allowed what others are, in proportion, whatever the size of their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracles.doubledouble import F64
from oracles.formula.contract import Contract
from oracles.formula.simulation import simulate
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import Lanes, Pairwise
from oracles.tests.common.judged import problem
from oracles.truth import Truth

DOUBLE = Contract("f64")


def _widths(of: Problem, contract: Contract, output: str) -> F64:
    return Truth(of).enclosures(contract, of.structured)[output].below


@pytest.mark.parametrize("name", OPS)
def test_half_widths_are_those_of_other_dtypes_in_proportion(name: str) -> None:
    single, double = (
        replace(problem(OPS[name], "normal", dtype, (2, 16), np.random.default_rng(1)), structured=True)
        for dtype in ("f32", "f64")
    )
    for output in single.outputs:
        widths = _widths(single, Contract(), output), _widths(double, DOUBLE, output) * 2.0**29
        np.testing.assert_allclose(widths[1], widths[0], rtol=0.02, atol=0.02 * widths[0].max(), err_msg=output)


@pytest.mark.parametrize("exponent", [-505, -360, 0, 430, 505])
def test_half_widths_are_in_proportion_to_rows_of_any_size(exponent: int) -> None:
    x = np.random.default_rng(2).standard_normal((2, 64))
    plain, scaled = (
        Problem("rms_norm", {"eps": 0.0}, {"x": x * 2.0**power}, {"y": "f64"}, True) for power in (0, exponent)
    )
    np.testing.assert_allclose(_widths(scaled, DOUBLE, "y"), _widths(plain, DOUBLE, "y"), rtol=1e-6)


def test_a_sum_just_below_overflow_is_judged() -> None:
    x = np.full((1, 16), np.sqrt(np.finfo(np.float64).max / 16) * (1 - 2.0**-52))
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f64"}, True)
    results = [Truth(of).check(DOUBLE, {"y": np.full((1, 16), y)})[0].result for y in (0.0, 1.0, 0.5, 2.0)]
    assert results == ["pass", "pass", "numeric", "numeric"]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_a_sum_of_two_operands_is_one_rounding_that_every_kernel_shares(dtype: str) -> None:
    x, residual = np.array([[1.0, -3.0, 2.0**12]]), np.array([[2.0**-14, 3.0 + 2.0**-6, 2.0**-13]])
    tensors = {"x": x.astype(STORAGE[dtype]), "residual": (residual * 2.0**-45).astype(STORAGE["f32"])}
    of = Problem("fused_add_rms_norm", {"eps": 1.0}, tensors, {"y": "f64", "sum": "f64"}, True)
    added = tensors["x"].astype(np.float64) + tensors["residual"]
    assert not _widths(of, DOUBLE, "sum").any()
    wide = _widths(of, DOUBLE, "y") / np.abs(added / np.sqrt(np.mean(added * added) + 1))
    assert wide.max() < 8 * 2.0**-53
    found = Truth(of).check(DOUBLE, simulate(of, DOUBLE, np.random.default_rng(0)))
    assert [each.result for each in found] == ["pass", "pass"]


def test_what_cancels_in_double_and_is_rounded_to_16_bits_does_not_make_the_tiers_disagree() -> None:
    y = np.array([[3.9421625e-06], [-7.6276763e-07], [3.4538845e-03]], np.float32)
    dy = np.full((3, 1), 1224.0, STORAGE["bf16"])
    contract = replace(DOUBLE, sums={"n": Pairwise(4)})
    x = np.array([[3.338e-06, 7.987e-06, 4.397e-01], [np.inf, -2.879e-05, -1.636e-02]], np.float16)
    gradient = np.array(
        [[-1.8944232e-04, 1.0263484e-03, 6.7090598e-04], [-7.8944118e-05, 5.7472714e-04, -3.5861923e-04]]
    )
    weight = np.array([1.074, 0.871, -1.848], np.float16)
    inputs = {"x": x, "dy": gradient.astype(np.float32), "weight": weight}
    params = {"eps": 0.0, "weight_offset": 0.5}
    other = replace(DOUBLE, algorithm={"dx": "times n"}, sums={"n": Lanes(4, 4, "scalar")}, mean="reciprocal")
    for of, allowed in (
        (Problem("log_softmax_backward", {}, {"y": y, "dy": dy}, {"dx": "bf16"}), contract),
        (Problem("rms_norm_backward", params, inputs, {"dx": "f16"}, True), other),
    ):
        truth = Truth(of)
        for seed in range(60):
            for check in truth.check(allowed, simulate(of, allowed, np.random.default_rng(seed))):
                assert check.result == "pass"
