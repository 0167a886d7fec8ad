"""Extents that matter to kernels with tiles: whole tiles with tails, heads of attention, and long sums."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from fuzz.core.base.stream import Dice
from fuzz.core.generate.coverage import TILES
from fuzz.core.generate.dims import (
    CHEAP_WORK,
    FEW_BATCHES,
    LARGE_WORK,
    MOST_WORK,
    SMALL_WORK,
    USUAL_WORK,
    Decisions,
    fitted,
    has_rows_alone,
    holds_tiles,
    ranks_of,
    rotated,
)
from fuzz.core.generate.sketch import Sketch
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

_ROWS_EVERY = 4
"""For ops of rows alone, one in this many of the tiled cases is made."""
_TILED = (64, 16, 128, 64, 32)
"""The sizes of tiles for cases in which all dimensions have tiles of one size. Successive cases take them in turn."""
_OF_TWO = (64, 128, 64, 32, 64, 16)
"""The sizes of tiles in two dimensions, in turn. In one case of four the second dimension has another size."""
_OF_ONE = (128, 64, 16, 80, 32, 96, 256)
"""The sizes of a tile, or of a head of attention, along one dimension, in turn. Common sizes come early."""
_BESIDE_HEAD = 32
"""The extent beside a head that two tensors share is 2 plus a number below this."""
_TAIL = 16
"""The tail after whole tiles has fewer elements than this."""
_SUMMED = (1024, 2048)
"""Lengths from which on kernels may split a sum among programs."""
_BESIDE_SUMMED = (8, 16)
"""The sizes of tiles in other dimensions beside a long sum."""
_FEW_BESIDE = (8, 8, 9)
"""The extents of other dimensions beside a cheaper long sum."""
_LONG = (512, 1024, 2048, 4096)
"""The extents of a long dimension, before a tail is added."""


def tiled(sketch: Sketch, dice: Dice, number: int) -> Sketch | None:
    """Return the sketch with whole tiles in all dimensions at once, each with its own tail. `number` chooses in turn:
    one size for all dimensions, one for each, or a long sum. Return None if kernels have fewer than two dimensions with
    tiles. For ops with rows alone, return None for most numbers, since their other cases are wide already."""
    op, able = OPS[sketch.capability.op], sketch.capability.able
    if len(op.tiled) < 2 or (has_rows_alone(op) and number % _ROWS_EVERY):
        return None
    rank = dice.pick([rank for rank in ranks_of(op) if rank > 1 or OUTER not in op.tiled])
    axis = dice.below(rank) if able.axis == "any" else rank - 1
    most = most_of_tiles(op)
    extents = Decisions(fitted(replace(sketch, rank=rank, axis=axis, outer=(), extents={})), dice, most)
    rounds, kind = divmod(number // _ROWS_EVERY if has_rows_alone(op) else number, 4)
    tiles = {dim: _TILED[rounds % len(_TILED)] if kind == 0 else dice.pick(TILES) for dim in rotated(op.tiled, dice)}
    if kind == 2 and (reduced := [dim for dim in tiles if op.dimensions[dim].reduced]):
        tiles = dict.fromkeys(tiles, dice.pick(_BESIDE_SUMMED)) | {dice.pick(reduced): dice.pick(_SUMMED)}
    have_tails = dice.one_in(2)
    if op.shapes and dice.one_in(2):
        extents.publish()
        tiles = {dim: tile for dim, tile in tiles.items() if dim not in extents.known}
    for dim, tile in tiles.items():
        extents.keep({dim: min(tile + (_tail(dice) if have_tails else 0), extents.room(dim))})
    for dim in rotated(list(tiles), dice)[:1]:
        more = {dim: extents.known[dim] + tiles[dim] * dice.below(3)}
        extents.keep(more if op.work({**extents.known, **more}) <= min(most, LARGE_WORK) else {})
    extents.draw(batches=FEW_BATCHES)
    return extents.sketch


def tiled_along_one(sketch: Sketch, dice: Dice, number: int) -> Sketch | None:
    """Return the sketch with a whole tile, or a head, along one dimension. `number` chooses the dimension and the size
    in turn; the other extents are limited by the remaining room. If it is the output's row, the first input's row has
    the same size, like queries and values of one head, and the other dimensions have several elements."""
    op = OPS[sketch.capability.op]
    dims = _tiled(op)
    if not dims:
        return None
    extents = _plain(sketch, dice, dice.pick((SMALL_WORK, USUAL_WORK)))
    rounds, place = divmod(number, len(dims))
    size = _OF_ONE[rounds % len(_OF_ONE)]
    extents.keep({dims[place]: size})
    others = [op.row, *dims] if op.outputs[0].axes[-1:] == (dims[place],) else []
    for number, dim in enumerate(others):
        if dim in dims and dim not in extents.known:
            shared, few = extents.room(dim, others[number + 1 :]), 2 + dice.below(_BESIDE_HEAD)
            extents.keep({dim: min(size, extents.room(dim)) if dim == op.row else min(few, shared)})
    return _drawn(extents, dice)


def tiled_along_two(sketch: Sketch, dice: Dice, number: int) -> Sketch | None:
    """Return the sketch with whole tiles along two dimensions, each with its own tail. `number` chooses the pair and
    the size in turn; the other extents are limited by the remaining room."""
    pairs = [*combinations(_tiled(OPS[sketch.capability.op]), 2)]
    if not pairs:
        return None
    extents = _plain(sketch, dice, USUAL_WORK)
    rounds, place = divmod(number, len(pairs))
    tile = _OF_TWO[rounds % len(_OF_TWO)]
    for dim, size in zip(rotated(pairs[place], dice), (tile, tile if dice.below(4) else dice.pick(TILES)), strict=True):
        extents.keep({dim: min(size + _tail(dice), extents.room(dim))})
    return _drawn(extents, dice)


def long_along_one(sketch: Sketch, dice: Dice, number: int) -> Sketch | None:
    """Return the sketch with many elements along one dimension, which `number` chooses in turn, or None if the op has
    no tiled dimension. The other extents are limited by the remaining room. If the long dimension is summed over, then
    in about half of the cases the other tiled dimensions have only 8 or 9 elements."""
    op = OPS[sketch.capability.op]
    dims = _tiled(op)
    if not dims:
        return None
    dim = dims[number % len(dims)]
    many = op.dimensions[dim].reduced and dice.one_in(2)
    extents = _plain(sketch, dice, CHEAP_WORK if many else dice.pick((SMALL_WORK, USUAL_WORK)))
    extents.keep({dim: min(dice.pick(_SUMMED if many else _LONG) + _tail(dice), extents.room(dim))})
    for other in rotated(dims, dice) if many else ():
        if other != dim:
            extents.keep({other: min(dice.pick(_FEW_BESIDE), extents.room(other))})
    return _drawn(extents, dice)


def most_of_tiles(op: Op) -> int:
    """Return the largest number of terms that a step may have in cases with tiles in all dimensions."""
    if has_rows_alone(op):
        return SMALL_WORK
    return CHEAP_WORK if holds_tiles(op) else MOST_WORK


def _tiled(op: Op) -> list[str]:
    """Return the named dimensions along which kernels have tiles; none for ops with rows alone."""
    return [] if has_rows_alone(op) else [dim for dim in op.tiled if dim != OUTER]


def _plain(sketch: Sketch, dice: Dice, most: int) -> Decisions:
    """Return the extents of the sketch, all undecided."""
    return Decisions(fitted(replace(sketch, outer=(), extents={})), dice, most)


def _drawn(extents: Decisions, dice: Dice) -> Sketch:
    """Return the sketch with all extents decided. In every second case some are from published models, if any."""
    if extents.op.shapes and dice.one_in(2):
        extents.publish()
    extents.draw()
    return extents.sketch


def _tail(dice: Dice) -> int:
    """Return the number of elements after whole tiles, or -1."""
    kind = dice.below(5)
    return (0, 1, -1)[kind] if kind < 3 else 1 + dice.below(_TAIL - 1)
