"""Elementary functions within their bounds of mpmath: hundreds of thousands of arguments for each."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.tests.common.elementary import ARITHMETICS, EXACT, arguments, worst

SEEDS = 20


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_errors_are_within_the_bound(name: str, arithmetic: str, seed: int) -> None:
    x = arguments(name, 2000, 100 + seed)
    assert x.size > 10_000
    found = worst(name, arithmetic, x, seed)
    print(f"{arithmetic} {name}: {found.ratio:.3f} of the bound at {found.high!r} + {found.low!r}")
    assert found.ratio <= 1, found


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_every_position_of_a_rotary_embedding(name: str, arithmetic: str) -> None:
    """Integers up to 2^20, one in seven: the smallest angles that a long context has are far from them."""
    found = worst(name, arithmetic, np.arange(0.0, 2.0**20, 7.0))
    assert found.ratio <= 1, found
