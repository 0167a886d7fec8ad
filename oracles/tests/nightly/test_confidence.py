"""What lambda was chosen for: sums whose rounding errors are random stay far below lambda sqrt(h) u."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracles.budget import CONFIDENCE
from oracles.dtypes import form
from oracles.simulated.roundings import total
from oracles.summation import Lanes, Pairwise, Sequential, Summation, Tiles

ORDERS = (
    Sequential(),
    Lanes(4, 4, "scalar"),
    Lanes(16, 4, "scalar"),
    Lanes(12, 4, "predicated"),
    Tiles(256),
    Pairwise(8),
)
_ELEMENTS = 1 << 22


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("n", [64, 127, 1024, 32768])
def test_the_largest_error_of_a_random_sum_needs_a_small_share_of_lambda(order: Summation, n: int) -> None:
    random, worst = np.random.default_rng(n), 0.0
    for _ in range(_ELEMENTS >> 20):
        x = random.standard_normal(((1 << 20) // n, n)).astype(np.float32)
        terms = (x * x).astype(np.float64)
        found = total((x * x), order).astype(np.float64)
        exact = terms.sum(axis=-1)
        worst = max(worst, float(np.max(np.abs(found - exact) / exact)))
    assert worst / (form("f32").u * math.sqrt(order.chain(n) + 1)) < CONFIDENCE / 4
