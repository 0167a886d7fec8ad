"""Extents that kernels of several dimensions work by: whole tiles with tails, heads of attention, and long sums."""

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
    ranks_of,
    rotated,
)
from fuzz.core.generate.sketch import Sketch
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

_ROWS_EVERY = 4
"""One case of rows alone with whole tiles comes where this many of other ops do."""
_TILED = (64, 16, 128, 64, 32)
"""The tiles that all dimensions have at once, in turn."""
_OF_TWO = (64, 128, 64, 32, 64, 16)
"""Those that two dimensions have, in turn; one of them has another one in one case of four."""
_OF_ONE = (128, 64, 16, 80, 32, 96, 256)
"""The tiles, and sizes of heads of attention, that one dimension has, in turn: those soon that most kernels know."""
_BESIDE_HEAD = 32
"""Extents beside heads that two tensors share are 2 more than a number below this."""
_TAIL = 16
"""There are fewer elements than this more than whole tiles."""
_SUMMED = (1024, 2048)
"""The length from which on kernels may split a sum among programs."""
_BESIDE_SUMMED = (8, 16)
"""The tiles of other dimensions beside a long sum."""
_FEW_BESIDE = (8, 8, 9)
"""The extents of other dimensions beside a cheaper one."""
_LONG = (512, 1024, 2048, 4096)
"""The extents around which a dimension is long."""


def tiled(sketch: Sketch, dice: Dice, number: int) -> Sketch | None:
    """The sketch with whole tiles in all dimensions at once, each with a tail of its own; None where kernels have no
    two dimensions to take tiles of, and of rows alone, which are wide in other cases, for most numbers. In turn, by the
    number: one tile for all dimensions, or one for each, or a long sum."""
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
    """The sketch with one whole tile, or head, along one dimension, each dimension and size in turn by the number, and
    what there is room for along the others; where it is the row of the output, that of the first input has the same,
    as queries and values of one head have it, and the others several elements."""
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
    """The sketch with whole tiles along two dimensions, each pair and tile in turn by the number, each with a tail of
    its own, and what there is room for along the others."""
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
    """The sketch with many elements along one dimension, each in turn by the number, and what there is room for along
    the others: several beside every second long sum."""
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
    """The terms that the largest step may have of cases with tiles in all dimensions."""
    return SMALL_WORK if has_rows_alone(op) else MOST_WORK


def _tiled(op: Op) -> list[str]:
    """The named dimensions that kernels take tiles of; empty for rows alone, which have tiles in other cases."""
    return [] if has_rows_alone(op) else [dim for dim in op.tiled if dim != OUTER]


def _plain(sketch: Sketch, dice: Dice, most: int) -> Decisions:
    """The extents of the sketch, all still to be decided."""
    return Decisions(fitted(replace(sketch, outer=(), extents={})), dice, most)


def _drawn(extents: Decisions, dice: Dice) -> Sketch:
    """The sketch with all other extents, in every second case some that are published where any are."""
    if extents.op.shapes and dice.one_in(2):
        extents.publish()
    extents.draw()
    return extents.sketch


def _tail(dice: Dice) -> int:
    """How many elements there are more than whole tiles, or one less."""
    kind = dice.below(5)
    return (0, 1, -1)[kind] if kind < 3 else 1 + dice.below(_TAIL - 1)
