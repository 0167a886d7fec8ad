"""How a simulated kernel calculates a recurrence: one place after the other, in blocks that are carried on, or as a
tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from oracles.doubledouble import F64
from oracles.formula.exact.recurrences import at_place

Block = tuple[F64, F64]
"""By what some places multiply the state before them, and what they add to it."""
Advanced = Callable[[F64, F64, F64], F64]
"""The state after one place: a h + b, from h, a and b."""
_LONGEST_BLOCK = 8


def scanned(
    args: Sequence[F64], axis: int, n: int, way: Literal["places", "blocks", "tree"], random: np.random.Generator,
    advanced: Advanced, product: Callable[[F64, F64], F64],
) -> F64:  # fmt: skip
    """Return all states along an axis, from the factors, what is added, and the state before the first."""
    a, b, h = args
    if not n:
        return np.asarray(at_place(a * h + b, axis, slice(0, 0)))
    places = [(at_place(a, axis, place), at_place(b, axis, place)) for place in range(n)]
    if way == "places":
        found = list[F64]()
        for each in places:
            h = advanced(h, *each)
            found.append(h)
        return np.concatenate(found, axis)

    def after(before: Block, block: Block) -> Block:
        return product(before[0], block[0]), advanced(before[1], *block)

    if way == "blocks":
        _carry_on(places, int(random.integers(2, _LONGEST_BLOCK + 1)), after)
    else:
        step = 1
        while step < n:
            places = [after(places[at - step], each) if at >= step else each for at, each in enumerate(places)]
            step *= 2
    return np.concatenate([advanced(h, *each) for each in places], axis)


def _carry_on(places: list[Block], size: int, after: Callable[[Block, Block], Block]) -> None:
    """Make of each place all up to it: first within blocks, then from the end of one block to all of the next."""
    for first in range(0, len(places), size):
        for place in range(first + 1, min(first + size, len(places))):
            places[place] = after(places[place - 1], places[place])
        for place in range(first, min(first + size, len(places)) if first else first):
            places[place] = after(places[first - 1], places[place])
