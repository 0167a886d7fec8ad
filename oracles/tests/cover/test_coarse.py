"""Sums of numbers with fewer bits than the accumulator: rounding errors are not random, and no alarm is raised."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import Contract, Lanes, Sequential
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.tests.common.judged import results, simulated

LONG = 32753
ORDERS = pytest.mark.parametrize("order", [Sequential(), Lanes(4, 4, "scalar")])


def _small_whole(rng: np.random.Generator, shape: tuple[int, ...], unit: float) -> np.ndarray:
    """f16 subnormals, or any numbers of few bits: small whole multiples of one unit."""
    return np.rint(rng.standard_normal(shape) * 47) * unit


@ORDERS
def test_long_sums_of_coarse_squares(order: Sequential | Lanes) -> None:
    """f16 subnormals are small whole multiples of 2^-24: their squares round in one direction, not at random."""
    contract = Contract(sums={"n": order}, fused=False)
    for seed in range(2):
        x = _small_whole(np.random.default_rng(seed), (4, LONG), 2.0**-24).astype(np.float16)
        problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f16", "rstd": "f32"})
        assert results(problem, contract, simulated(problem, contract)) == ["pass", "pass"]


@pytest.mark.some(3)
@ORDERS
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("x", ["f32", "f16"])
def test_a_sum_of_two_tensors_that_is_coarser_than_they_are(order: Sequential | Lanes, dtype: str, x: str) -> None:
    """What is normalised is the sum as it was rounded, not x."""
    contract = Contract(sums={"n": order}, points={"added": "sum"}, fused=False)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        whole = _small_whole(rng, (2, 4, LONG), 2.0**-24 if dtype == "f16" else 1.0)
        tensors = {"x": whole[0].astype(STORAGE[x]), "residual": whole[1].astype(np.float32)}
        problem = Problem("fused_add_rms_norm", {"eps": 0.0}, tensors, {"y": "f32", "sum": dtype, "rstd": "f32"})
        assert results(problem, contract, simulated(problem, contract)) == ["pass", "pass", "pass"]


@pytest.mark.some(1)
@ORDERS
@pytest.mark.parametrize("dx", ["formula", "rstd3"])
def test_gradients_where_dy_follows_x(order: Sequential | Lanes, dx: str) -> None:
    """The products are squares, and add up like those of the forward pass; f32 outputs hide nothing of it."""
    contract = Contract(sums={"n": order, "...": order}, algorithm={"dx": dx}, fused=False)
    for seed in range(2):
        x = _small_whole(np.random.default_rng(seed), (2, LONG), 2.0**-8).astype(np.float16)
        for tensor in (x, np.ascontiguousarray(x.T)):
            root = np.ones(len(tensor), np.float32)
            given: dict[str, np.ndarray] = {"x": tensor, "dy": tensor, "rstd": root}
            problem = Problem("rms_norm_backward", {"eps": 0.0}, given, {"dx": "f32", "dw": "f32"})
            assert results(problem, contract, simulated(problem, contract)) == ["pass", "pass"]
