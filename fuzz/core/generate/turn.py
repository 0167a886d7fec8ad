"""The cases of one turn: sketches for one capability, completed by dice, with values that are drawn together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case, Origin, Shard
from fuzz.core.base.dispatch import SMALL
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Answer, Label
from fuzz.core.base.stream import Dice, Stream, dice_of
from fuzz.core.generate.aliasing import ONE_IN, aliased, aliased_as
from fuzz.core.generate.capabilities import out_of_capability
from fuzz.core.generate.coverage import Labels
from fuzz.core.generate.dims import has_rows_alone
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.gaps import ALONE, PARTS, Gaps, corners_of
from fuzz.core.generate.limits import Limits
from fuzz.core.generate.pairing import pairing_of
from fuzz.core.generate.realise import cases_of, laid
from fuzz.core.generate.relatives import sequence
from fuzz.core.generate.shapes import purposeful
from fuzz.core.generate.sketch import ROWS, THRESHOLDS, N, Sketch, drawn_from, near, simplest, sketched
from fuzz.core.generate.steering import LARGEST, nudged, steer
from fuzz.core.generate.tiles import long_along_one, tiled, tiled_along_one, tiled_along_two
from fuzz.core.generate.values import Laid
from oracles.ops import OPS

PLACES = 32
"""The number of places of a turn. Its own cases have places 1 to BATCH; relatives that a guide proposes, later ones."""
BATCH = 16
"""The number of cases of a turn: enough to amortise a draw, few enough to keep the progress line moving. Chosen."""


def is_proposed(origin: Origin) -> bool:
    """Return whether a guide proposed the case. Such a case follows from judgements too, so it has no name from which
    it could be made again."""
    return isinstance(origin.shard, int) and origin.number % PLACES > BATCH


FAN = 4
"""The number of successive cases of a turn that are relatives of one sketch. Hypothesis draws the sketch of a call
sequence. Dice draw the others in the same way, in a twentieth of the time."""
STEERED = 10
"""The number of cases of a turn that fill coverage gaps, while there are any. The others only come near gaps."""
STEERED_LATER = 2
"""The number of steered cases once a shard has had PARTS turns for the capability. By then other shards have visited
what this one has not."""
PAIRED, PAIRED_LATER = 1, 6
"""The number of cases, the last of a turn, in which two conditions hold that never held together in their shard: in the
first PARTS turns for the capability, and later. Of 4,000 cases for anything of matmul, 4 later ones leave out 3.8% of
the pairs, and 6 leave out 2.4%."""
SHARED, SHARED_LATER = 4, 8
"""The same numbers if several capabilities share the turns, so that each has few: in its first PARTS / SHARING turns,
and later. For three of softmax, matmul and silu_mul_backward, 1 and 6 left out 7, 12 and 9% of the pairs in 4,000
cases, and 4 and 8 left out 4, 7 and 5%."""
SHARING = 2
"""The divisor of the number of a capability's first turns if several share the turns. Three capabilities of attention
left out 5.5% of their pairs with 1 and 4.2% with 3, but with 3 ten of rms_norm left tails of rows in 4,500 cases."""
STEERED_SHARED = 8
"""The number of cases that fill coverage gaps if several capabilities share the turns. It leaves room for pairs."""
SEQUENCE_EVERY = 2
"""One in this many turns of a capability begins with a call sequence, in place of its first fan."""
TILED_EVERY = 2
"""One in this many turns of a capability, not those with a call sequence, begins with a case of whole tiles in several
dimensions. This case takes as long as all others of the turn."""
TILE_PLACE = FAN
"""The place of the case with a whole tile along one dimension: the first one that neither a call sequence nor a gap
takes. For ops with several dimensions the next case fills no gap either. It is long along one dimension or, if another
case of the turn is, has whole tiles along two."""
LIMIT_PLACE = 6
"""The first place of each turn with an extent of `fuzz.core.generate.limits`, while any is left."""
_LONG = tuple((N, n) for n in THRESHOLDS if n > LARGEST)
"""The row lengths with which a case is too large to fill another gap. Chance came to some after 8,000 cases. The first
turns of a capability have one each, between those with a case without elements, which begin with a call sequence."""
_EMPTY: tuple[Label, ...] = (N, 0), (ROWS, 0)
_EMPTY_EVERY = 6
"""One in this many turns has a case without rows, or with rows without elements, until its shard has seen one. Such a
case fills no other gap, and by chance it would come once in thousands of cases."""
_OUT_ONE_IN = 8
"""One in this many sketches is a case that the kernel promises to reject, if it promises that."""


@dataclass(frozen=True)
class Made:
    """A case, and how it was made."""

    case: Case
    draw: Draw | None
    """The draw of the case; None for a case of a call sequence and for a big case, which have none."""
    capability: Capability


@dataclass(frozen=True)
class Turn:
    """One turn of one shard: BATCH cases for one capability. It is the unit of work."""

    shard: int
    number: int
    """The number of the turn among those of its shard: 0, 1, 2, ..."""

    @property
    def first(self) -> int:
        """The number of the turn's first case."""
        return self.number * PLACES + 1


@dataclass(frozen=True)
class _Waiting:
    """A case whose values are not drawn yet."""

    laid: Laid
    capability: Capability
    dice: Dice
    shared: tuple[Answer, int] | None = None
    """How tensors of the case are to share memory: in the way of a label or, for '', in any way that dice choose."""


class TurnMaker:
    """A maker of the turns of one capability. A turn depends only on its place, its rank and the state of its shard."""

    def __init__(
        self, capability: Capability, ahead: int, sequences: bool, numbers: Sequence[int] = (),
        *, kinds: int = 1, first_pair: int = 0,
    ) -> None:  # fmt: skip
        """`ahead` is in turns; `numbers` are those in the sources of the capability's kernels; `kinds` is the number of
        capabilities that have turns; `first_pair` is the number of the first draw for a pair, of which each `kinds`-th
        follows."""
        self.capability, self.sequences, alone = capability, sequences, kinds == 1
        self._ahead, self._first_pair, self._kinds = ahead, first_pair, kinds
        """The number of turns by which the sweep over the gaps is shifted, which differs between capabilities."""
        self._early = PARTS if alone else -(-PARTS // SHARING)
        self._outside = out_of_capability([capability])
        self._filling = STEERED if alone else STEERED_SHARED
        self._filling_first = self._filling - (not has_rows_alone(OPS[capability.op]))
        self._paired = (PAIRED, PAIRED_LATER) if alone else (SHARED, SHARED_LATER)
        self._corners, self._pairing = corners_of(capability), pairing_of(capability)
        self._limits = Limits(capability, numbers)

    def cases(self, unit: Turn, stream: Stream, rank: int, state: bytes) -> tuple[list[Made], bytes]:
        """Return the cases of the turn that comes after `rank` others, drawn from the stream, and the next state: all
        that the shard has visited."""
        visited, turn = int.from_bytes(state, "little"), rank + self._ahead
        gaps, pairs = self._corners.gaps(visited, turn), visited >> self._corners.size
        dice = dice_of(stream, BATCH + self._paired[1])
        begins = self.sequences and rank % SEQUENCE_EVERY == 0
        sketches = list(self._sketches(stream, dice, rank, by_hypothesis=begins))
        made = _calls(unit, sketches[0], dice[0], rank // SEQUENCE_EVERY) if begins else []
        gaps = self._left(gaps, made)
        first, later = self._paired
        steered, paired = (self._filling_first, first) if rank < self._early else (STEERED_LATER, later)
        numbered = min(rank, self._early) * first + max(0, rank - self._early) * later
        if not rank:  # a short search has this turn alone, which must serve kernels that take less, too
            steered, paired = self._filling_first + STEERED - self._filling, PAIRED
        waiting = list[_Waiting]()
        for index in range(len(made), BATCH):
            number, sketch = unit.first + index, sketches[index]
            own = bool(gaps) and sketch.capability is self.capability
            left = BATCH - paired - index
            limit = self._limits.draw(rank, index - LIMIT_PLACE, dice[index])
            if limit is not None:
                each = _Waiting(laid(limit, unit.shard, number), self.capability, dice[index])
            elif left <= 0 and sketch.capability is self.capability:
                pair = self._pairing.wanted(turn, pairs, turn // PARTS * paired - left)
                at = self._first_pair + (numbered - left) * self._kinds
                draw = self._pairing.draw(sketch, pair, turn, at, dice[index], dice[BATCH - left])
                each = _Waiting(laid(draw, unit.shard, number), self.capability, dice[index])
            elif own and left <= steered:
                at = turn * self._filling + steered - left
                each = self._steered(sketch, dice[index], gaps, gaps.wanted(at), at, unit.shard, number)
            elif own and left == steered + 1 and (rare := _rare(gaps, rank)):
                each = self._steered(sketch, dice[index], gaps, rare, turn, unit.shard, number)
            else:
                shaped = self._whole(sketch, stream, rank, index) if sketch.capability is self.capability else None
                shaped = shaped or purposeful(sketch, dice[index])
                sketch = shaped or (nudged(sketch, gaps) if own and rank < PARTS else sketch)
                each = _free(sketch, dice[index], unit.shard, number)
            waiting.append(each)
            if gaps and each.capability is self.capability and each.shared is None:
                gaps = gaps.without(self._corners.seen(_counted(each.laid.labels, _is_small(each.laid.draw))))
        counted = len(made)
        for each, case in zip(waiting, cases_of([each.laid for each in waiting]), strict=True):
            made.append(Made(self._shared(case, each), each.laid.draw, each.capability))
        # labels of shared memory and of values are known only now
        late = [
            one
            for one, each in zip(made[counted:], waiting, strict=True)
            if each.shared is not None or one.case.origin.labels is not each.laid.labels
        ]
        visited = self._corners.everything & ~self._left(gaps, late).waiting
        labels = [each.case.origin.labels for each in made if each.capability is self.capability]
        visited |= self._pairing.visited(turn, pairs, labels) << self._corners.size
        return made, visited.to_bytes(-(-(self._corners.size + self._pairing.part(turn)) // 8), "little")

    def _whole(self, sketch: Sketch, stream: Stream, rank: int, index: int) -> Sketch | None:
        """Return the sketch with whole tiles, or a long dimension, if the place is reserved for that; else None."""
        rounds, rest = divmod(rank, TILED_EVERY)
        if index == 0 and rest == 1:
            return tiled(sketch, Dice(stream.child("tiles")), rounds)
        if index == TILE_PLACE:
            return tiled_along_one(sketch, Dice(stream.child("tile")), rank)
        if rest == 1 and index in (2, TILE_PLACE + 1):
            return tiled_along_two(sketch, Dice(stream.child(f"tiles of {index}")), 2 * rounds + (index == 2))
        if index == (rest or TILE_PLACE + 1):
            return long_along_one(sketch, Dice(stream.child("long")), rank)
        return None

    def _left(self, gaps: Gaps, made: Sequence[Made]) -> Gaps:
        """Return the gaps that these cases leave open."""
        for each in made:
            if gaps and each.capability is self.capability:
                gaps = gaps.without(self._corners.seen(_counted(each.case.origin.labels, SMALL.holds(each.case))))
        return gaps

    def _sketches(self, stream: Stream, dice: Sequence[Dice], rank: int, *, by_hypothesis: bool) -> Iterator[Sketch]:
        for place in range(0, BATCH, FAN):
            head, capability = dice[place], self.capability
            if self._outside and head.one_in(_OUT_ONE_IN):
                capability = head.pick(self._outside)
            if rank == 0:
                sketch = simplest(self.capability, head)
            elif place == 0 and by_hypothesis and capability is self.capability:
                drawn = drawn_from(capability)(stream.child("sketch"))
                sketch = replace(drawn, capability=capability)  # the drawn one may be an equal one of another pack
            else:
                sketch = sketched(capability, head.below)
            yield sketch
            yield from (near(sketch, each) for each in dice[place + 1 : place + FAN])

    def _steered(
        self, sketch: Sketch, dice: Dice, gaps: Gaps, wanted: Sequence[Label], turn: int, shard: Shard, number: int
    ) -> _Waiting:
        draw = steer(sketch, self.capability, gaps, wanted, turn, dice)
        kind, value = wanted[0]
        shared = (value, turn) if kind == ALONE else None
        return _Waiting(laid(draw, shard, number), self.capability, dice, shared)

    def _shared(self, case: Case, waiting: _Waiting) -> Case:
        if waiting.shared is None:
            return case
        label, turn = waiting.shared
        if isinstance(label, tuple):
            return aliased_as(case, label, turn)
        return aliased(case, self.capability, waiting.dice)


def _free(sketch: Sketch, dice: Dice, shard: Shard, number: int) -> _Waiting:
    draw = draw_from(sketch, dice=dice)
    shared = ("", 0) if dice.one_in(ONE_IN) else None
    return _Waiting(laid(draw, shard, number), sketch.capability, dice, shared)


def _rare(gaps: Gaps, rank: int) -> Sequence[Label]:
    """Return the gap for a case without elements, or for a very long row, if this turn fills it, else nothing."""
    rounds, rest = divmod(rank, _EMPTY_EVERY)
    if rest == _EMPTY_EVERY // 2:
        return [label for label in _LONG[rounds : rounds + 1] if gaps.wants(label)]
    open_ones = [label for label in _EMPTY if gaps.wants(label)] if rest == 0 else []
    return [open_ones[rounds % len(open_ones)]] if open_ones else []


def _calls(unit: Turn, sketch: Sketch, dice: Dice, turn: int) -> list[Made]:
    """Return the call sequence that begins the turn."""
    cases = sequence(draw_from(sketch, dice=dice), sketch.capability, turn)
    origins = [replace(c.origin, shard=unit.shard, number=unit.first + i) for i, c in enumerate(cases)]
    return [Made(replace(c, origin=o), None, sketch.capability) for c, o in zip(cases, origins, strict=True)]


def _counted(labels: Labels, small: bool) -> Sequence[Label]:
    """Return the labels that are counted as visited by a case. A case that is too large for slow targets counts only
    for its size, so that smaller cases fill the other gaps."""
    if small:
        return labels
    return [label for label in labels if label[0].kind in ("n", "rows", "tail", "extent", "remainder", "tile")]


def _is_small(draw: Draw) -> bool:
    """Return whether the case of the draw will be within `SMALL`."""
    small = all(math.prod(draw.block(part.name)) <= SMALL.elements for part in draw.parts)
    return small and draw.rows <= SMALL.most_rows(OPS[draw.op])
