"""Gradients of float64 rows of any size: what the fast tier decides is what the precise tier says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oracles import Contract
from oracles.doubledouble import F64
from oracles.problem import Problem
from oracles.tests.common.tiers import disagreements

WAYS = {
    "formula": Contract("f64"),
    "rstd3": Contract("f64", algorithm={"dx": "rstd3"}),
    "flush": Contract("f64", denormals="flush"),
}
EPS = (0.0, 1e-5, 1e-12, 100.0)


def problems(seed: int, count: int, spread: int, least: int = -1060) -> Iterator[Problem]:
    """Rows with exponents from end to end of the range; within a row elements differ by up to 2^spread."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows, n = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        x, dy = (_grid(rows, n, spread, least, rng) for _ in range(2))
        inputs = {"x": x, "dy": dy}
        if number % 2:
            inputs["weight"] = _grid(1, n, spread, least, rng)[0]
        if number % 3 == 2:
            largest = np.frexp(np.abs(x).max(axis=1))[1]
            inputs["rstd"] = np.ldexp(
                rng.uniform(0.5, 1, rows), np.clip(rng.integers(-80, 80, rows) - largest, -1000, 1000)
            )
        outputs = {"dx": "f64", "dw": "f64"}
        yield Problem("rms_norm_backward", {"eps": EPS[number % 4]}, inputs, outputs, structured=bool(number % 5))


def _grid(rows: int, n: int, spread: int, least: int, rng: np.random.Generator) -> F64:
    scales = rng.integers(least, -least - 60, (rows, 1))
    values: F64 = np.ldexp(
        rng.standard_normal((rows, n)), np.clip(scales - rng.integers(0, spread + 1, (rows, n)), -1074, 1010)
    )
    values[rng.uniform(size=values.shape) < 0.15] = 0.0
    return values


def judged(contract: Contract, seed: int, count: int, spread: int, least: int = -1060) -> tuple[int, int]:
    rng, compared, unsure = np.random.default_rng(seed), 0, 0
    for problem in problems(seed, count, spread, least):
        found = disagreements(problem, contract, rng)
        assert not found[2], found[2][0]
        compared, unsure = compared + found[0], unsure + found[1]
    return compared, unsure


@pytest.mark.some(1)
@pytest.mark.parametrize("spread", [0, 40, 1000])
@pytest.mark.parametrize(("way", "least"), [("formula", -1060), ("flush", -1060), ("rstd3", -300)])
def test_rows_of_any_size_are_enclosed(way: str, least: int, spread: int) -> None:
    """By way of the cube of rstd only where that does not underflow."""
    assert judged(WAYS[way], 7, 9, spread, least)[0] > 1000


def test_rows_whose_squares_are_in_range_are_decided_by_the_fast_tier() -> None:
    compared, unsure = judged(WAYS["formula"], 8, 15, 40, least=-100)
    assert unsure < compared / 10, f"{unsure} of {compared}"
