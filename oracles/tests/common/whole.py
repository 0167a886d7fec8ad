"""How much of a table is tried: in the gate some of its rows, at night all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

WHOLE = "KERNELFUZZ_TEST_WHOLE" in os.environ
"""Whether tests try all that they can, as `.ci/nightly` asks of them, and may take any time for it."""


def some(rows: Sequence[T], count: int) -> Sequence[T]:
    """Return `count` rows of a table; at night the whole table."""
    return rows if WHOLE else evenly(rows, count)


def quarter(count: int) -> int:
    """Return a quarter of a number of cases, of which most only say the same again; at night all of them."""
    return count if WHOLE else count // 4


def evenly(rows: Sequence[T], count: int) -> Sequence[T]:
    """Return `count` rows of a table, evenly spread from its first to its last."""
    if count >= len(rows):
        return rows
    return [rows[place * (len(rows) - 1) // max(count - 1, 1)] for place in range(count)]
