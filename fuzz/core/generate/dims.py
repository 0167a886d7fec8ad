"""The extents of ops with several named dimensions. Extents have tails and relations to each other, and are limited by
the number of terms that the oracle calculates."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import Any

from fuzz.core.base.capability import MAX_RANK, Capability
from fuzz.core.base.draw import spread_over
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.coverage import STEP, TILES
from fuzz.core.generate.sketch import ENOUGH_ROWS, ROWS, USUAL_CASE, N, Sketch, fitting, fitting_n
from oracles.formula.made import few, follows, long, short
from oracles.op import Extents, Op
from oracles.operand import OUTER
from oracles.ops import OPS, remembered

USUAL_WORK = 1 << 15
"""The limit of terms in the largest step of most cases, see `Op.work`. The oracle takes a few milliseconds for them."""
SMALL_WORK = 1 << 13
"""The limit of terms for every second case. Without it, ops of many dimensions would always reach `USUAL_WORK`."""
CHEAP_WORK = 1 << 17
"""The limit of terms for relatives and probes, of which there are many, and for ops whose operands hold each term: 5 of
640 cases of `group_norm` had 82% of all elements."""
LARGE_WORK = 1 << 20
"""The limit of terms for the remaining cases, for which the oracle takes 0.1 to 0.3 s."""
MOST_WORK = 1 << 22
"""The limit of terms for cases with tiles in all dimensions."""
_LARGE_ONE_IN = 32
_FREE_ONE_IN = 2
"""One in this many cases gets a new length of rows, if nothing fixes an extent; the others keep their sketch's."""
_BLOCKS = (4, 8, *TILES)
"""The numbers of elements that kernels process at once along a dimension."""
_LARGEST = 300
"""The largest extent that is drawn, except for the row and in `fuzz.core.generate.tiles`."""
_WINDOWS = 32
"""The limit of terms is at least this many times the number of terms that the op's fixed extents alone require. So an
op with many channels has cases with several windows."""
_EMPTY_ONE_IN = 48
_PUBLISHED_ONE_IN = 4
"""One in this many cases with free extents takes them from published models, if the op knows any."""
_BATCHES = (1, 2, 3, 4, 6)
FEW_BATCHES = (1, 1, 1, 2)
"""Extents of unnamed dimensions in cases with whole tiles, for which these extents do not matter."""


@lru_cache(maxsize=64)
def ranks_of(op: Op) -> Sequence[int]:
    """Return the ranks that the first input may have."""
    named = max(len(set(each.axes) - {OUTER}) for each in op.operands)
    most = min(MAX_RANK - named, 4 if len(op.inner) == 1 else 3) if OUTER in op.inputs[0].axes else 0
    return range(len(op.inner), len(op.inner) + most + 1)


def usual_rank(op: Op) -> int:
    """Return the rank with two axes besides rows, or with one unnamed axis if the op has several named ones."""
    return min(max(3, len(op.inner) + 1), ranks_of(op)[-1])


@remembered(4096)
def some_extents(capability: Capability, dim: str) -> Sequence[int]:
    """Return extents that a dimension may have, from 1 up to some tiles."""
    return [size for size in range(1, 4 * max(STEP, capability.step(dim)) + 1) if capability.takes(dim, size)]


@remembered(4096)
def common(capability: Capability, dims: tuple[str, str]) -> Sequence[int]:
    """Return the extents above 1 that both dimensions may have, in increasing order."""
    one, other = dims
    return [size for size in some_extents(capability, one) if size > 1 and capability.takes(other, size)]


def shaped(sketch: Sketch, dice: Dice, wish: Mapping[Feature, Any], *, free: bool, even: int = 1) -> Sketch:
    """Return the sketch with an extent for each named dimension. If the op has rows alone, return the sketch as it is,
    or with a published length of rows. Wished extents are kept unless they are too large together. `free` says that no
    wish is about the shape. Drawn extents of tiled dimensions are multiples of `even`, unless they get too large."""
    op = OPS[sketch.capability.op]
    if has_rows_alone(op):
        return _published(sketch, dice) if free and op.shapes and dice.one_in(_PUBLISHED_ONE_IN) else sketch
    rare = dice.one_in(_LARGE_ONE_IN)
    most = (CHEAP_WORK if holds_tiles(op) else LARGE_WORK) if rare else dice.pick((SMALL_WORK, USUAL_WORK))
    if free and dice.one_in(_FREE_ONE_IN):
        sketch = replace(sketch, n=fitting_n(sketch.capability, _any(dice, _LARGEST)))
    extents = Decisions(fitted(sketch), dice, most)
    wished = {dim: wish[each] for dim in op.named if (each := Feature("extent", dim)) in wish}
    if free:
        if op.shapes and dice.one_in(_PUBLISHED_ONE_IN):
            extents.publish()
            extents.cut([op.row])
        extents.keep({op.row: sketch.n, **extents.known})
    elif ROWS in wish:
        extents.keep({**wished, **extents.drawn})
    elif sketch.outer or sketch.extents:
        extents.keep({**extents.drawn, **wished})
    else:
        extents.keep({**wished, **({op.row: sketch.n} if N in wish else {})})
        extents.cut(extents.drawn)
    extents.draw(even)
    return extents.sketch


def _published(sketch: Sketch, dice: Dice) -> Sketch:
    """Return the sketch with a length of rows from a published model that its op knows."""
    op = OPS[sketch.capability.op]
    n = fitting_n(sketch.capability, dice.pick(op.shapes).get(op.row, sketch.n))
    return replace(sketch, n=n, rows=min(sketch.rows, max(ENOUGH_ROWS, USUAL_CASE // max(n, 1))))


def has_room(sketch: Sketch, wish: Mapping[Feature, Any], asked: Mapping[Feature, Any]) -> bool:
    """Return whether the extents that are `asked` for, with those of the `wish` and of the sketch, keep every step
    within `USUAL_WORK` terms. Always true if no extents are asked for."""
    if not any(key.kind == "extent" for key in asked):
        return True
    extents = Decisions(fitted(sketch), Dice(Stream(0)), USUAL_WORK)
    wished = {key.subject: size for key, size in {**wish, **asked}.items() if key.kind == "extent"}
    return extents.op.work({**extents.drawn, **wished}) <= USUAL_WORK


def sizes_of(sketch: Sketch) -> Extents:
    """Return the extents of a sketch by dimension, with a rank that the op allows."""
    return Decisions(fitted(sketch), Dice(Stream(0)), 0).drawn


def fitted(sketch: Sketch) -> Sketch:
    """Return the sketch with a rank that the op allows, and rows along the last axis if only that is allowed."""
    op = OPS[sketch.capability.op]
    ranks = ranks_of(op)
    rank = min(max(sketch.rank, ranks[0]), ranks[-1])
    outer, rows = sketch.outer, 1 if rank == 1 else sketch.rows
    if not outer or len(outer) != rank - 1:
        outer = spread_over(rows, rank - 1)
    axis = min(sketch.axis, rank - 1) if op.any_axis else rank - 1
    if (rank, axis, outer) == (sketch.rank, sketch.axis, sketch.outer):
        return sketch
    return replace(sketch, rank=rank, axis=axis, outer=outer)


def possible(sketch: Sketch) -> Sketch:
    """Return the sketch with possible extents. Extents are shortened if fixed ones give the largest step too many
    terms. They are lengthened if the kernel requires it, and until those that follow from others are positive whole
    numbers."""
    op = OPS[sketch.capability.op]
    if not op.made and not op.least and (not op.fixed or has_rows_alone(op)):
        return sketch
    extents = Decisions(fitted(sketch), Dice(Stream(0)), 0)
    extents.keep(extents.drawn)
    for one, other in op.square:
        extents.keep({other: extents.known[one]})
    free = [dim for dim in extents.known if dim not in op.fixed]
    while op.work(extents.known) > MOST_WORK:
        longest = max(free, key=lambda dim: extents.known[dim], default="")
        if extents.known.get(longest, 1) <= 1:
            break
        before = extents.known[longest]
        extents.keep({longest: before // 2})
        if extents.known[longest] >= before:  # the kernel takes no shorter ones
            break
    for _ in range(_LARGEST):  # the kernel may take no longer ones
        longer = short(op.made, extents.known) | few(op.least, op.made, extents.known)
        if not longer:
            break
        if shorter := long(op.made, extents.known) - op.fixed.keys():
            known = dict(extents.known)
            extents.keep({dim: known[dim] // 2 for dim in shorter})
            if extents.known != known:  # the kernel takes shorter ones
                continue
        extents.keep({dim: extents.known[dim] + 1 for dim in longer})
    return extents.sketch


def holds_tiles(op: Op) -> bool:
    """Return whether an operand has all tiled dimensions. Products of matrices have no such operand."""
    return any({*op.tiled} <= {*each.axes} for each in op.operands)


def has_rows_alone(op: Op) -> bool:
    """Return whether the op has only rows, so that the sketch decides both extents of its first input."""
    return op.any_axis and not op.further


class Decisions:
    """The extents of one sketch while they are decided one by one."""

    def __init__(self, sketch: Sketch, dice: Dice, most: int) -> None:
        """Start with no extent decided. `most` is the largest number of terms that a step may have."""
        self.op, self._dice, self._base = OPS[sketch.capability.op], dice, sketch
        least = self.op.work(self.op.fixed) if self.op.fixed else 0
        self._most = max(most, min(LARGE_WORK, _WINDOWS * least))
        self._batch = list(sketch.outer[: sketch.rank - len(self.op.inner)])
        """The extents of the axes without a name."""
        self.known: dict[str, int] = {}
        """The decided extents, by dimension."""

    @property
    def drawn(self) -> Extents:
        """The extents that the sketch was drawn with, by dimension."""
        base, op = self._base, self.op
        return {OUTER: math.prod(self._batch), **op.sizes((*base.outer, base.n), base.rank - 1), **base.extents}

    @property
    def sketch(self) -> Sketch:
        """The sketch with the decided extents."""
        outer = (*self._batch, *(self.known[dim] for dim in self.op.inner[:-1]))
        further = {dim: self.known[dim] for dim in self.op.further}
        return replace(self._base, n=self.known[self.op.row], rows=math.prod(outer), outer=outer, extents=further)

    def keep(self, extents: Extents) -> None:
        """Decide on these extents, each replaced by the nearest one that the kernel takes."""
        capability = self._base.capability
        if OUTER in extents and extents[OUTER] != math.prod(self._batch):
            self._batch = [*spread_over(extents[OUTER], len(self._batch))]
        self.known |= {dim: size if dim == OUTER else fitting(capability, dim, size) for dim, size in extents.items()}

    def room(self, dim: str, others: Iterable[str] = ()) -> int:
        """Return the largest extent of a dimension for which no step has too many terms, leaving room for `others`."""
        if self.op.made:
            return self._room_of_made(dim, {*others})
        found, known = self._most, {**self.op.fixed, **self.known}
        for step in (step for step in self.op.steps if dim in step):
            left = self._most // math.prod(max(1, known.get(each, 1)) for each in step - {dim})
            found = min(found, round(left ** (1 / (1 + len(step & {*others})))))
        return max(1, found)

    def _room_of_made(self, dim: str, others: Set[str]) -> int:
        """Return the largest extent of a dimension for which no step has too many terms, if some extents of the op
        follow from others."""
        known, sizes = {**self.op.fixed, **self.known}, range(1, _LARGEST + 1)
        most: int = bisect_right(sizes, self._most, key=lambda size: self.op.work({**known, dim: size}))
        sharing = max(len(follows(self.op.made, step) & others - {dim}) for step in self.op.steps)
        return max(1, round(math.pow(most, 1.0 / (1 + sharing))))

    def publish(self) -> None:
        """Decide on extents of published models if they have room. There are two attempts, since a model may give two
        groups of dimensions, such as heads and groups."""
        for shape in (self._dice.pick(self.op.shapes) for _ in range(2)):
            if self.known.keys().isdisjoint(shape) and self.op.work({**self.known, **shape}) <= self._most:
                self.keep(shape)

    def cut(self, dims: Iterable[str]) -> None:
        """Decide on the extents of the sketch for these dimensions, limited to the room left. Decided extents stay."""
        for dim in (dim for dim in dims if dim not in self.known):
            size = min(self.drawn[dim], self.room(dim))
            if dim == OUTER and size < self.drawn[dim]:
                self._batch = [1] * len(self._batch)
            self.keep({dim: size})

    def draw(self, even: int = 1, batches: Sequence[int] = _BATCHES) -> None:
        """Decide on all other extents in random order, first those of tiled dimensions. `even` divides the extents of
        tiled dimensions if there is room; `batches` are extents to choose from for the others."""
        left = rotated([dim for dim in self.op.tiled if dim not in self.known and dim != OUTER], self._dice)
        for place, dim in enumerate(left):
            room = self.room(dim, () if self._dice.one_in(3) else left[place + 1 :])
            size = self._extent(room)
            self.keep({dim: -(-size // even) * even if -(-size // even) * even <= room else size})
        for dim in (dim for dim in self.op.named if dim not in self.known):
            room = self.room(dim)
            few = batches is FEW_BATCHES or not self._dice.one_in(4)
            self.keep({dim: min(room, self._dice.pick(batches)) if few else self._extent(room)})
        for axis in range(len(self._batch)) if OUTER not in self.known else ():
            self.known[OUTER] = math.prod(self._batch[:axis])
            self._batch[axis] = min(self.room(OUTER) // max(1, self.known[OUTER]), self._dice.pick(batches))

    def _extent(self, room: int) -> int:
        """Return a random extent: sometimes 0, sometimes one in relation to a decided extent."""
        dice = self._dice
        if self._base.capability.empty and dice.one_in(_EMPTY_ONE_IN):
            return 0
        if self.known and dice.one_in(4):
            other = dice.pick(list(self.known.values()))
            found = dice.pick((other, other, other + 1, other - 1, 2 * other, other // 2))
        else:
            found = _any(dice, min(room, _LARGEST))
        return max(1, min(found, room, _LARGEST))


def rotated(dims: Sequence[str], dice: Dice) -> Sequence[str]:
    start = dice.below(max(1, len(dims)))
    return *dims[start:], *dims[:start]


def _any(dice: Dice, most: int) -> int:
    """Return a random extent from 1 to `most`: small, next to a multiple of a block, or any."""
    kind = dice.below(4)
    blocks = [block for block in _BLOCKS if block + 1 <= most]
    if kind == 0 or (kind == 1 and not blocks):
        return 1 + dice.below(min(most, 8))
    if kind == 1:
        block = dice.pick(blocks)
        return min(most, block * (1 + dice.below(min(4, most // block))) + dice.pick((-1, 0, 1)))
    return 1 + dice.below(min(most, 70) if kind == 2 else most)
