"""Both tiers on many random elements of every op."""

from __future__ import annotations

import pytest

from fuzz.quality.oracle import compared
from oracles.ops import OPS

_ELEMENTS = 20_000
"""The elements compared of each op: a fiftieth of `python3 -m fuzz.quality centres --elements 1000000`."""


@pytest.mark.parametrize("op", OPS)
def test_the_tiers_agree_on_many_elements(op: str) -> None:
    found = compared(OPS[op], _ELEMENTS, 3)
    assert found.elements >= _ELEMENTS
    assert found.wrong == ()
    assert found.gave_up < 0.001 * found.elements
    # Most are of f64, and out of reach of double-double; codes of 8 bits are decided by what lies near a tie as well.
    assert found.escalated < 0.35 * found.elements
