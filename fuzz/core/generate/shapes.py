"""Shapes that chance hardly ever gives: related extents, those of published models, many long rows, longest rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fuzz.core.base.capability import Capability
from fuzz.core.base.stream import Dice, Stream, dice_of
from fuzz.core.generate.dims import fitted, possible
from fuzz.core.generate.models import MODELS, model_shape
from fuzz.core.generate.sketch import ENOUGH_ROWS, Sketch, fitting, fitting_n, simplest
from oracles.ops import OPS, remembered

RELATED_ONE_IN = 6
"""One in this many freely drawn cases has related extents. A kernel that confuses two extents is right if they are
equal, and may crash if they differ by much."""
MODEL_ONE_IN = 32
"""One in this many freely drawn cases has a shape of `fuzz.core.generate.models`."""
WIDE_ONE_IN = 64
"""One in this many freely drawn cases has many long rows. It takes as long as ten others."""
_AT_LIMIT_ONE_IN = 64
"""One in this many cases has the longest rows that its kernel takes."""
_LARGEST_CAPACITY = 2**17
"""The largest declared limit of a kernel that is tried, in elements."""

_RELATED_CASE = 4096
"""The largest number of elements of a case with related extents, such as 64 rows of 32 elements."""
_MODEL_CASE = 2**14
"""The most elements of a case with a model's shape, unless one row is longer. Batches and sequences are cut."""
_WIDE_CASE = 2**15
"""The largest number of elements of a case with many long rows, unless the fewest rows have more."""
_WIDE_ROWS = (17, 18, 24, 31, 32, 33, 48, 64, 65, 100)
_WIDE_WIDTHS = (
    256,
    257,
    512,
    640,
    1000,
    1023,
    1024,
    1025,
    *sorted({each.width for each in MODELS if each.width > 512}),
)
_LONGEST_WIDE = 4096
"""The longest row of which a case may have many."""

_SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64)
"""The smaller of two related extents, or both if they are equal."""
_FACTORS = (2, 2, 3, 4, 8)


def purposeful(sketch: Sketch, dice: Dice) -> Sketch | None:
    """Return the sketch with a shape that chance hardly ever gives, or, most of the time, None."""
    most = sketch.capability.able.max.get(OPS[sketch.capability.op].row)
    if dice.one_in(RELATED_ONE_IN):
        return _related(sketch, dice)
    if dice.one_in(MODEL_ONE_IN):
        *others, n = model_shape(dice)
        return _shaped(sketch, others, n, _MODEL_CASE, dice)
    if dice.one_in(WIDE_ONE_IN):
        return _wide(sketch, dice)
    if most is not None and most <= _LARGEST_CAPACITY and dice.one_in(_AT_LIMIT_ONE_IN):
        return replace(sketch, n=fitting_n(sketch.capability, most), rows=min(sketch.rows, ENOUGH_ROWS), outer=())
    return None


def _related(sketch: Sketch, dice: Dice) -> Sketch | None:
    """Return the sketch with two or more extents that are equal, multiples, or one apart. Return None if the shortest
    rows that the kernel takes are too long for this."""
    how, factor, size = dice.below(8), dice.pick(_FACTORS), dice.pick(_SIZES)
    n = fitting_n(sketch.capability, size)
    if how < 3:
        others = [n] * (1 + dice.one_in(3))
    elif how == 3:
        others = [n * factor]
    elif how == 4:
        others, n = [n], fitting_n(sketch.capability, n * factor)
    elif how == 5:
        others = [max(1, n + dice.pick((1, -1)))]
    elif how == 6:
        others = [size, size]
    else:  # all rows together are n
        others, n = [factor, n], fitting_n(sketch.capability, n * factor)
    others += [1 + dice.below(3) for _ in range(dice.below(2))]
    while len(others) > 1 and math.prod(others) * n > _RELATED_CASE:
        others.pop()
    return _shaped(sketch, others, n, _RELATED_CASE, dice) if math.prod(others) * n <= _RELATED_CASE else None


def _wide(sketch: Sketch, dice: Dice) -> Sketch:
    """Return the sketch with many long rows, spread over one or two axes."""
    n = fitting_n(sketch.capability, dice.pick(_WIDE_WIDTHS))
    rows = max(_WIDE_ROWS[0], min(dice.pick(_WIDE_ROWS), _WIDE_CASE // max(n, 1)))
    most = _WIDE_ROWS[0] * _LONGEST_WIDE
    return _shaped(sketch, [rows] if dice.one_in(2) or rows % 2 else [2, rows // 2], n, most, dice)


def _shaped(sketch: Sketch, others: Sequence[int], n: int, most: int, dice: Dice) -> Sketch:
    """Return the sketch with these extents. Rows lie along the last axis or, if the kernel takes any axis, along a
    random one. The largest of the other extents are reduced until the case has at most `most` elements."""
    outer, n = list(others), fitting_n(sketch.capability, n)
    while (elements := math.prod(outer) * n) > most and max(outer, default=1) > 1:
        largest = outer.index(max(outer))
        outer[largest] = max(1, outer[largest] * most // elements)
    rank = len(outer) + 1
    axis = dice.below(rank) if sketch.capability.able.axis == "any" else rank - 1
    return fitted(replace(sketch, n=n, rows=math.prod(outer), rank=rank, axis=axis, outer=tuple(outer)))


Extents = tuple[tuple[int, ...], int, int]
"""A shape: the extents of all axes but the row's, the index of the row's axis, and n, the row's length."""
_TABLE = 1500
"""The number of shapes drawn for the table of a capability. Drawing them takes as long as the cases of a few turns."""
_FEW = (1, 2, 3, 4, 5, 8, 9, 16)


@remembered(256)
def table_of(capability: Capability) -> Sequence[Extents]:
    """Return shapes of every size and relation that the kernel takes, the smallest first."""
    plainest = simplest(capability, Dice(Stream(0)))
    least = {dim: fitting(capability, dim, 1) for dim in OPS[capability.op].further}
    found = dict[Extents, int]()
    for dice in dice_of(Stream(0).child("shapes"), _TABLE):
        shaped = dice.pick((_any, _any, _any, _any, _related, _related, _related, _wide))(plainest, dice)
        shaped = shaped and possible(replace(shaped, extents=least))
        if shaped is not None and shaped.n:
            found[shaped.outer, shaped.axis, shaped.n] = shaped.rows * shaped.n
    return sorted(found, key=lambda each: (found[each], each))


def _any(sketch: Sketch, dice: Dice) -> Sketch:
    """Return the sketch with any length and number of rows."""
    n = (1 << dice.below(13)) + dice.below(1 << dice.below(12))
    outer = [dice.pick(_FEW) for _ in range(dice.below(5))]
    return _shaped(sketch, outer, n, max(_WIDE_CASE, n), dice)
