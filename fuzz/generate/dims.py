"""The extents of an op that is not a row op: of each named dimension, with tails, in relation to one another, and
within what its formula has to calculate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from fuzz.base.capability import MAX_RANK
from fuzz.base.draw import spread_over
from fuzz.base.stream import Dice
from fuzz.generate.sketch import EXTENT, Sketch, fitting_n
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

WORK = 1 << 15
"""All extents together come to so many places at most, unless a row alone is longer: about as many products as a
contraction has, each of which the oracle forms."""
MOST_PLACES = 1 << 17
"""No case has more, unless its rows are the longest that are drawn."""
_MORE_ONE_IN = 16
"""One case in so many has up to so many."""
_FREE_ONE_IN = 2
"""The other cases keep the length of the rows that they were drawn with."""
_TILES = (4, 8, 16, 32, 64, 128)
"""The numbers of elements that kernels take at once along a dimension."""
_LARGEST = 300
"""No extent is drawn larger, but that of the rows."""
_EMPTY_ONE_IN = 48
_BATCHES = (1, 2, 3, 4, 6)


@lru_cache(maxsize=64)
def ranks_of(op: Op) -> Sequence[int]:
    """The ranks that the first input may have."""
    named = max(len(set(each.axes) - {OUTER}) for each in op.operands)
    outer = range(min(MAX_RANK - named, 3) + 1) if OUTER in op.inputs[0].axes else range(1)
    return [len(op.inner) + more for more in outer]


def shaped(sketch: Sketch, dice: Dice, wish: Mapping[str, str], *, free: bool, even: int = 1) -> Sketch:
    """The sketch with an extent for each named dimension; of a row op it is as it was.

    `free`: its shape is nobody's wish. What is wished for stands, as far as all of it is not too much. `even`: a number
    that divides the extents, where that is not too much.
    """
    op = OPS[sketch.capability.op]
    if op.by_rows:
        return sketch
    most = MOST_PLACES if dice.one_in(_MORE_ONE_IN) else WORK
    if free and dice.one_in(_FREE_ONE_IN):
        sketch = replace(sketch, n=fitting_n(sketch.capability, _any(dice, _LARGEST)))
    sketch = fitted(sketch)
    if free:
        sketch = _freely(op, sketch, dice, most)
    return _with_fixed(op, _extended(op, sketch, dice, wish, most, even))


def fitted(sketch: Sketch) -> Sketch:
    """The sketch with a rank that the op has, its rows along the last axis; of a row op it is as it was."""
    op = OPS[sketch.capability.op]
    if op.by_rows:
        return sketch
    ranks = ranks_of(op)
    rank = min(max(sketch.rank, ranks[0]), ranks[-1])
    outer, rows = sketch.outer, 1 if rank == 1 else sketch.rows
    if not outer or len(outer) != rank - 1:
        outer = spread_over(rows, rank - 1)
    return _with_fixed(op, replace(sketch, rank=rank, axis=rank - 1, outer=outer))


def _with_fixed(op: Op, sketch: Sketch) -> Sketch:
    """With the extents that are always the same."""
    named = len(op.inner) - 1
    outer = [*sketch.outer[: len(sketch.outer) - named]]
    outer += [op.fixed.get(dim, size) for dim, size in zip(op.inner, sketch.outer[len(outer) :], strict=False)]
    extents = {dim: op.fixed.get(dim, size) for dim, size in sketch.extents.items()}
    n = op.fixed.get(op.row, sketch.n)
    return replace(sketch, n=n, rows=math.prod(outer), outer=tuple(outer), extents=extents)


def _freely(op: Op, sketch: Sketch, dice: Dice, most: int) -> Sketch:
    """Other dimensions of the first input than that of its rows, from their own classes of numbers."""
    named = len(op.inner) - 1
    outer, places = [1] * (sketch.rank - 1), max(1, sketch.n)
    for axis in reversed(range(sketch.rank - 1)):
        room = max(1, most // places)
        is_named = axis >= sketch.rank - 1 - named
        outer[axis] = _extent(sketch, dice, room, [sketch.n, *outer]) if is_named else min(room, dice.pick(_BATCHES))
        places *= max(1, outer[axis])
    return replace(sketch, rows=math.prod(outer), outer=tuple(outer))


def _extended(op: Op, sketch: Sketch, dice: Dice, wish: Mapping[str, str], most: int, even: int) -> Sketch:
    """With the extents of dimensions that the first input does not have, and those that are wished for."""
    wished = {dim: int(wish[EXTENT + dim]) for dim in op.named if EXTENT + dim in wish} | {**op.fixed}
    outer, n = list(sketch.outer), sketch.n
    for place, dim in enumerate(reversed(op.inner[:-1]), start=1):
        if dim in op.fixed or (dim in wished and "rows" not in wish):
            outer[-place] = wished[dim]
    further = {dim: wished.get(dim, 1) for dim in op.further}
    fixed = math.prod(max(1, size) for size in (*outer, *further.values()))
    if "n" not in wish and fixed * n > most and wished:
        n = fitting_n(sketch.capability, max(1, most // fixed))
    places, left = fixed * max(1, n), len(op.further)
    for dim in op.further:
        room, left = max(1, most // places), left - 1
        if left and not dice.one_in(3):
            room = max(1, round(room ** (1 / (1 + left))))  # the others shall have as much
        if dim not in wished:
            further[dim] = _extent(sketch, dice, room, [n, *outer, *further.values()])
            if even > 1 and -(-further[dim] // even) * even <= room:
                further[dim] = -(-further[dim] // even) * even
            places *= max(1, further[dim])
    return replace(sketch, n=n, rows=math.prod(outer), outer=tuple(outer), extents=further)


def _extent(sketch: Sketch, dice: Dice, room: int, others: Sequence[int]) -> int:
    """An extent: now and then in relation to one of the others, or 0."""
    if sketch.capability.empty and dice.one_in(_EMPTY_ONE_IN):
        return 0
    if dice.one_in(4):
        other = dice.pick(others)
        found = dice.pick((other, other, other + 1, other - 1, 2 * other, other // 2))
    else:
        found = _any(dice, min(room, _LARGEST))
    return max(1, min(found, room, _LARGEST))


def _any(dice: Dice, most: int) -> int:
    """A number up to a largest one: small, around a multiple of a tile, or anything."""
    kind = dice.below(4)
    tiles = [tile for tile in _TILES if tile + 1 <= most]
    if kind == 0 or (kind == 1 and not tiles):
        return 1 + dice.below(min(most, 8))
    if kind == 1:
        tile = dice.pick(tiles)
        return min(most, tile * (1 + dice.below(min(4, most // tile))) + dice.pick((-1, 0, 1)))
    return 1 + dice.below(min(most, 70) if kind == 2 else most)
