"""Pairs of conditions: the pairs that a kernel allows, those that a turn aims at, and draws in which a pair holds.
There are far more pairs than coverage labels, so they are divided into as many parts as there are shards. All turns of
a shard for one capability aim at the same part, so that a shard need not keep the visited pairs of other parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from fuzz.core.base.capability import Capability
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Feature, Label, label_words
from fuzz.core.base.stream import Dice
from fuzz.core.generate.capabilities import dtype_pairs
from fuzz.core.generate.conditions import SAME, SHAPE, Condition, Pair, Together, conditions_of, of_label
from fuzz.core.generate.coverage import frame_labels, length_labels
from fuzz.core.generate.drawing import zeroed
from fuzz.core.generate.gaps import PARTS, corners_of
from fuzz.core.generate.layouts import OVERLAPPING, classes_of
from fuzz.core.generate.shapes import Extents, table_of
from fuzz.core.generate.sketch import ROWS, Sketch
from fuzz.core.generate.space import space_of
from fuzz.core.generate.steering import steer_as_shaped
from oracles.operand import OUTER
from oracles.ops import OPS, remembered


class Pairing:
    """The pairs of conditions, of two different kinds, that cases for one capability can meet."""

    def __init__(self, capability: Capability) -> None:
        self.capability, self._conditions = capability, conditions_of(capability.op)
        self._shapes = [(each, self._conditions.holding(_labels_of(each))) for each in table_of(capability)]
        self._fitting: dict[int, Sequence[Extents]] = {}
        self._labels: dict[Condition, list[Label]] = {}
        """For each condition, the coverage labels from which it follows, except conditions on the shape."""
        for kind, values in space_of([capability]).items():
            for value in values:
                for condition in of_label((kind, value)):
                    if condition[0].kind not in SHAPE:
                        self._labels.setdefault(condition, []).append((kind, value))
        self._kinds: dict[Feature, list[Condition]] = {}
        for condition in self._labels:
            self._kinds.setdefault(condition[0], []).append(condition)
        self.all: Sequence[Pair] = tuple(self._pairs())
        self._bits = [(self._conditions.bits[one], self._conditions.bits[other]) for one, other in self.all]

    def _pairs(self) -> Iterator[Pair]:
        bits = self._conditions.bits
        together = Together()
        for _, holding in self._shapes:
            together.see(holding)
        shaped = [each for each in self._conditions.all if each[0].kind in SHAPE and bits[each] in together.beside]
        for one, other in combinations((*shaped, *self._labels), 2):
            if one[0] == other[0]:
                continue
            if other[0].kind in SHAPE:
                if together.has(bits[one], bits[other]):
                    yield one, other
            elif not self._contradict(one, other) and not self._contradict(other, one):
                yield one, other

    def _contradict(self, one: tuple[Feature, Any], other: tuple[Feature, Any]) -> bool:
        """Whether the first condition makes the second impossible."""
        op, (kind, value), (second, its) = OPS[self.capability.op], one, other
        name, about = kind.subject, "" if second.kind == "extent" else second.subject
        if kind.kind == "presence" and value == "no":
            needing = [each.name for each in op.operands if each.only_with == name]
            needing += [each.name for each in op.parameters if each.only_with == name]
            neutral = op.neutral.get(about)
            is_needed = about in needing and its != "no" and (neutral is None or its != repr(neutral))
            return about == name or is_needed
        if kind.kind == "alias" and isinstance(value, tuple):
            if second.kind == "presence":
                return about in value and its == "no"
            return second.kind == "layout" and (about == value[0] or (about == value[1] and its in OVERLAPPING))
        if kind.kind == "dtype" and name and second == Feature("dtype"):
            wanted = its if value == SAME else value
            return (wanted, its) not in dtype_pairs(self.capability, name) or (value != SAME and value == its)
        if kind.kind == "layout" and second == Feature("rank"):
            axes = len({*op.operand(name).axes} - {OUTER}) - len(op.inner) + int(its)
            return OUTER in op.operand(name).axes and value not in classes_of(axes)
        if kind == Feature("recipe", op.main):
            return second.kind == "parameter" and about in zeroed(self.capability, value) and float(its) != 0
        return kind.kind == "stack" and value == "many" and other in ((ROWS, "1"), (Feature("rank"), "1"))

    def part(self, turn: int) -> int:
        """Return the number of pairs in the part that a turn aims at."""
        return len(range(turn % PARTS, len(self.all), PARTS))

    def visited(self, turn: int, before: int, cases: Iterable[Iterable[Label]]) -> int:
        """Return the visited pairs of the turn's part as bits: the pairs `before`, and those met by these cases."""
        together, part = Together(), self._bits[turn % PARTS :: PARTS]
        for labels in cases:
            together.see(self._conditions.holding(labels))
        left, beside = ~before & ((1 << len(part)) - 1), together.beside
        while left:
            lowest = left & -left
            one, other = part[lowest.bit_length() - 1]
            if beside.get(one, 0) & other:
                before |= lowest
            left ^= lowest
        return before

    def wanted(self, turn: int, visited: int, place: int) -> Pair:
        """Return the pair that a place of the turn aims at: one that was not visited, as long as there is one."""
        size = self.part(turn)
        everything = (1 << size) - 1
        waiting = ~visited & everything or everything
        for _ in range(place % waiting.bit_count()):
            waiting &= waiting - 1
        number = (waiting & -waiting).bit_length() - 1
        return self.all[turn % PARTS + number * PARTS]

    def draw(self, sketch: Sketch, pair: Pair, turn: int, dice: Dice, more: Dice) -> Draw:
        """Return a draw in which the pair holds. The conditions of all other kinds are random, so other pairs are
        visited too. `more` is a second dice, since one has too few rolls for everything."""
        first = [more.pick(self._labels[each]) for each in pair if each[0].kind not in SHAPE]
        others = [more.pick(self._labels[more.pick(of_kind)]) for of_kind in self._kinds.values()]
        start = more.below(len(others))
        gaps = corners_of(self.capability).gaps(0, 0)
        wanted = [*first, *others[start:], *others[:start]]
        return steer_as_shaped(self._shape(sketch, pair, more), self.capability, gaps, wanted, turn, dice)

    def _shape(self, sketch: Sketch, pair: Pair, dice: Dice) -> Sketch:
        """Return the sketch with a shape that meets the pair's conditions on shapes."""
        mask = sum(self._conditions.bits[each] for each in pair if each[0].kind in SHAPE)
        fitting = self._fitting.get(mask)
        if fitting is None:
            fitting = self._fitting[mask] = [each for each, holding in self._shapes if holding & mask == mask]
        outer, axis, n = fitting[dice.below(1 + dice.below(len(fitting)))]  # preferably a small one
        return replace(sketch, n=n, rows=math.prod(outer), rank=len(outer) + 1, axis=axis, outer=outer)


def _labels_of(extents: Extents) -> Sequence[Label]:
    outer, axis, n = extents
    return *length_labels(n), *frame_labels(outer, axis, n)


@dataclass(frozen=True)
class PairCoverage:
    """How many pairs of conditions kernels allow, and which of these never held together."""

    allowed: int
    never: Sequence[Pair]
    """The pairs that never held together. Pairs that concern how a kernel walks through memory come first."""

    @property
    def record(self) -> dict[str, Any]:
        """The coverage as JSON, with labels in words."""
        return {"allowed": self.allowed, "never": [list(map(label_words, pair)) for pair in self.never]}


def held(capabilities: Sequence[Capability], together: Together) -> PairCoverage:
    """Return how many pairs at least one of these capabilities allows, and which pairs never held together. All
    capabilities are for one op."""
    allowed = {pair: None for each in capabilities for pair in pairing_of(each).all}
    bits = conditions_of(capabilities[0].op).bits if capabilities else {}
    never = [pair for pair in allowed if not together.has(bits[pair[0]], bits[pair[1]])]
    return PairCoverage(len(allowed), sorted(never, key=lambda pair: sum(map(_weight, pair))))


def _weight(condition: Condition) -> int:
    """Return a rank that is lower for conditions with more known bugs: shapes, then dtypes and layouts, then values."""
    kind = condition[0].kind
    return 0 if kind in SHAPE else 1 if kind in ("dtype", "layout", "stack", "address", "alias") else 2


@remembered(256)
def pairing_of(capability: Capability) -> Pairing:
    """Return the pairs of conditions that cases for a capability can meet."""
    return Pairing(capability)
