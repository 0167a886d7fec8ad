"""Kernels that calculate in float64 are allowed what others are, in proportion, whatever the size of their values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, total
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.simulation import simulate
from oracles.summation import Lanes
from oracles.tests.common.judged import X, known, problem, results, simulated
from oracles.truth import Truth

DOUBLE = Contract("f64")


def _widths(of: Problem, contract: Contract, output: str) -> F64:
    return Truth(of).enclosures(contract, of.structured)[output].below


@pytest.mark.some(12)
@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.any_axis and not op.least])
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
    share = _widths(scaled, DOUBLE, "y") / _widths(plain, DOUBLE, "y")
    assert share.min() > 1 - 1e-9  # what underflows is rounded up
    assert share.max() < 1 + 1e-4


@pytest.mark.parametrize(("of_x", "of_dy"), [(-505, -540), (-505, -600), (300, -500)])
def test_products_that_underflow_lose_no_error(of_x: int, of_dy: int) -> None:
    x, dy = np.random.default_rng(3).standard_normal((2, 2, 64))
    plain, scaled = (
        Problem("rms_norm_backward", {"eps": 0.0}, {"x": x * 2.0**a, "dy": dy * 2.0**b}, {"dx": "f64"}, True)
        for a, b in ((0, 0), (of_x, of_dy))
    )
    share = _widths(scaled, DOUBLE, "dx") * 2.0 ** (of_x - of_dy) / _widths(plain, DOUBLE, "dx")
    assert share.min() > 1 - 1e-9
    assert share.max() < 1 + 1e-4


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


@pytest.mark.parametrize("seed", [38, 119, 179, 184])
def test_an_output_that_is_rounded_once_does_not_make_the_tiers_disagree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, dy = rng.standard_normal((2, 3)).astype(np.float16), rng.standard_normal((2, 3)).astype(np.float32)
    inputs: dict[str, NDArray[Any]] = {"x": x, "dy": dy, "weight": rng.standard_normal(3).astype(np.float16)}
    params = {"eps": 0.0, "weight_offset": 0.5}
    of = Problem("rms_norm_backward", params, inputs, {"dx": "f16", "dw": "f16"}, True)
    lanes = Lanes(4, 4, "scalar")  # so these are among the passes that the precise tier confirms
    contract = Contract("f64", algorithm={"dx": "times n"}, sums={"n": lanes, "...": lanes}, mean="reciprocal")
    checks = Truth(of).check(contract, simulate(of, contract, np.random.default_rng(seed)))
    assert [each.result for each in checks] == ["pass", "pass"]


def scaled_sum(x: Node, w: Node, factor: Node) -> Outputs:
    """y = sum(x w) factor."""
    return {"y": total(x * w, "n") * factor}


SCALED_SUM = Op(scaled_sum, inputs=(X, Operand("w", "... n"), Operand("factor", "...")), outputs=(Operand("y", "..."),))


def test_what_products_lose_to_every_kernel_is_seen_once_their_sum_is_multiplied() -> None:
    """Each product is 4e-616 and a zero in f64: times 1e308 their sum is a number of f64, of which a kernel that has
    zeros knows nothing."""
    x, factor = np.array([[2e-308, 2e-308]]), np.array([1e308])
    with known(SCALED_SUM):
        of = Problem("scaled_sum", {}, {"x": x, "w": x, "factor": factor}, {"y": "f64"}, structured=True)
        assert simulated(of, DOUBLE)["y"] == 0.0
        for value, said in ((0.0, "pass"), (8e-308, "pass"), (1e-3, "numeric")):
            assert results(of, DOUBLE, {"y": np.array([value])}) == [said]


@pytest.mark.parametrize(("got", "result"), [(-0.0, "pass"), (-4094.25 * 2.0**-1074, "pass"), (-1e-318, "numeric")])
def test_a_function_that_underflows_in_float64_may_be_zero_to_kernels(got: float, result: str) -> None:
    """exp(-747) is a twelfth of the smallest number, of which a large factor makes a number again."""
    given = {"x": np.array([[128.0]]), "dy": np.array([-4094.25]), "y": np.array([875.0])}
    of = Problem("logsumexp_backward", {}, given, {"dx": "f64"}, True)
    assert results(of, DOUBLE, {"dx": np.array([[got]])}) == [result]


@pytest.mark.parametrize(("got", "result"), [(0.0, "pass"), (1e200 * 2.0**-149, "pass"), (1e160, "numeric")])
def test_what_underflows_in_f32_may_be_zero_though_f64_makes_a_number_of_it(got: float, result: str) -> None:
    """exp(-1000) is so in float64, too: its error is that of f32 all the same."""
    given = {"x": np.zeros((1, 1)), "dy": np.array([1e200]), "y": np.array([1000.0])}
    of = Problem("logsumexp_backward", {}, given, {"dx": "f64"}, True)
    assert results(of, Contract("f32", dtypes={"dx": "f64"}), {"dx": np.array([[got]])}) == [result]
