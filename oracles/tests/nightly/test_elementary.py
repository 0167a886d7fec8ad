"""Elementary functions within their bounds of mpmath: hundreds of thousands of arguments for each."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.doubledouble import DoubleDouble
from oracles.elementary.function import Elementary
from oracles.elementary.functions import function
from oracles.tests.common.elementary import ARITHMETICS, Arithmetic, arguments, every_function, worst

SEEDS = 20


@pytest.mark.parametrize("seed", range(SEEDS))
@every_function
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_errors_are_within_the_bound(of: Elementary, arithmetic: Arithmetic, seed: int) -> None:
    x = arguments(of, 2000, 100 + seed)
    assert x.size > 8_000
    found = worst(of, arithmetic, x, seed)
    print(f"{arithmetic} {of.name}: {found.ratio:.3f} of the bound at {found.high!r} + {found.low!r}")
    assert found.ratio <= 1, found


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_every_position_of_a_rotary_embedding(name: str, arithmetic: Arithmetic) -> None:
    """Integers up to 2^20, one in seven: the smallest angles that a long context has are far from them."""
    found = worst(function(name), arithmetic, np.arange(0.0, 2.0**20, 7.0))
    assert found.ratio <= 1, found


RANGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-700, 700), (-1, 1), (-0.001, 0.001)],
    "log": [(0.7, 1.42), (0.99, 1.01), (2.0**-1022, 1000)],
    "tanh": [(0, 1), (0, 0.01), (0, 20)],
    "sigmoid": [(-20, 20), (-2, 2), (-700, 0)],
    "erf": [(2.0**-900, 0.05), (0.01, 1), (0.01, 6)],
    "sin": [(-0.8, 0.8), (-10, 10), (0, 2.0**20), (0, 2.0**40)],
    "cos": [(-0.8, 0.8), (-10, 10), (0, 2.0**20), (0, 2.0**40)],
    "sqrt": [(1, 4)],
    "rsqrt": [(1, 4)],
}


@pytest.mark.parametrize("name", RANGES)
def test_float64_is_within_its_bound_of_double_double_at_millions_of_arguments(name: str) -> None:
    of, rng = function(name), np.random.default_rng(5)
    for low, high in RANGES[name]:
        x = rng.uniform(low, high, 2_000_000)
        exact = of.double.value(DoubleDouble(x))
        off = np.abs((of.float64.value(x) - exact.high) - exact.low)
        worst_ratio = (off / (of.float64.bound.relative * np.abs(exact.high))).max()
        print(f"{name} from {low} to {high}: {worst_ratio:.4f} of the bound")
        # Double-double is off by 2^-100 itself, 2^-47 of the bound.
        assert worst_ratio <= 1 + 2.0**-40
