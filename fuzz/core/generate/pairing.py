"""Pairs of conditions: the pairs that a kernel allows, those that a turn aims at, and draws in which a pair holds.
There are far more pairs than coverage labels, so they are divided into as many parts as there are shards. All turns of
a shard for one capability aim at the same part, so that a shard need not keep the visited pairs of other parts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, combinations_with_replacement, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.capability import Capability
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Feature, Kind, Label, label_words
from fuzz.core.base.stream import Dice
from fuzz.core.generate.capabilities import dtype_pairs
from fuzz.core.generate.conditions import SAME, SHAPE, SPANS, Condition, Pair, Together, conditions_of, of_label
from fuzz.core.generate.coverage import frame_labels, length_labels
from fuzz.core.generate.drawing import zeroed
from fuzz.core.generate.gaps import PARTS, corners_of
from fuzz.core.generate.layouts import OVERLAPPING, classes_of
from fuzz.core.generate.shapes import Extents, table_of
from fuzz.core.generate.sketch import ROWS, N, Sketch
from fuzz.core.generate.space import space_of
from fuzz.core.generate.steering import steer_as_shaped
from oracles.operand import OUTER
from oracles.ops import OPS, remembered

_BARRED_BY: Mapping[Kind, Sequence[Kind]] = {
    "alias": ("presence", "layout", "dtype"), "dtype": ("dtype",), "layout": ("rank",), "recipe": ("parameter",),
    "stack": ("rank", "rows"), "extent": ("rows",), "equal extents": ("extent", "n", "rows"),
}  # fmt: skip
"""The kinds of conditions that those of a kind may make impossible; an absent tensor may do this to any."""


_Types = tuple[tuple[str, str], ...]
"""Dtypes by tensor."""

_DEEP = {*classes_of(3)} - {*classes_of(2)}
"""The layouts that need two axes besides that of rows."""


class Pairing:
    """The pairs of conditions, of two different kinds, that cases for one capability can meet."""

    def __init__(self, capability: Capability) -> None:
        self.capability, self._conditions = capability, conditions_of(capability.op)
        self._shapes = [(each, self._conditions.holding(_labels_of(each))) for each in table_of(capability)]
        self._fitting: dict[tuple[int, bool], Sequence[Extents]] = {}
        self._labels: dict[Condition, dict[_Types, list[Label]]] = {}
        """For each condition, except those on the shape, the coverage labels from which it follows, by the dtypes that
        these imply."""
        main = OPS[capability.op].main
        for kind, values in space_of([capability]).items():
            for value in values:
                for condition in of_label((kind, value)):
                    if condition[0].kind not in SHAPE:
                        of_types = self._labels.setdefault(condition, {})
                        of_types.setdefault(_types_of((kind, value), main), []).append((kind, value))
        kinds = dict[Feature, list[Condition]]()
        for condition in self._labels:
            kinds.setdefault(condition[0], []).append(condition)
        # Kinds with few conditions meet by chance. The first input's dtype limits those of all others, and a wish for
        # an address excludes most layouts.
        self._kinds = sorted(kinds.values(), key=lambda each: (_late(each[0][0]), -len(each)))
        self._prime = _prime_from(max(len(self._kinds), *map(len, self._kinds)))
        together = Together()
        for _, holding in self._shapes:
            together.see(holding)
        bits = self._conditions.bits
        shaped = [each for each in self._conditions.all if each[0].kind in SHAPE and bits[each] in together.beside]
        self._every: Sequence[Condition] = (*shaped, *self._labels)
        self._bits = [bits[each] for each in self._every]
        # Ten thousand pairs: as tuples, making them and collecting garbage among them took longest.
        self._ones, self._others = np.triu(self._meeting(together, len(shaped)), 1).nonzero()

    def _meeting(self, together: Together, shaped: int) -> NDArray[np.bool_]:
        """Return, for each two conditions, whether both can hold. The first `shaped` ones are about the shape: these
        can hold with each other if they did in `together`."""
        every, of_kind, features = self._every, dict[str, list[int]](), dict[Feature, int]()
        for place, each in enumerate(every):
            of_kind.setdefault(each[0].kind, []).append(place)
        kinds = np.array([features.setdefault(each[0], len(features)) for each in every])
        found: NDArray[np.bool_] = kinds[:, None] != kinds
        for one, other in combinations(range(shaped), 2):
            found[one, other] &= together.has(self._bits[one], self._bits[other])
        for one, condition in enumerate(every):
            barred = of_kind if condition[0].kind == "presence" else _BARRED_BY.get(condition[0].kind, ())
            for other in (place for kind in barred for place in of_kind.get(kind, ())):
                if self._contradict(condition, every[other]):
                    found[one, other] = found[other, one] = False
        return found

    @property
    def all(self) -> Sequence[Pair]:
        """All pairs."""
        places = zip(self._ones.tolist(), self._others.tolist(), strict=True)
        return [(self._every[one], self._every[other]) for one, other in places]

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
            if second.kind == "dtype":
                both = frozenset.intersection(*(frozenset(dtype_pairs(self.capability, each)) for each in value))
                if second == Feature("dtype"):
                    return its not in {main for _, main in both}
                return about in value and its not in {SAME if own == main else own for own, main in both}
            return second.kind == "layout" and (about == value[0] or (about == value[1] and its in OVERLAPPING))
        if kind.kind in ("extent", "equal extents"):
            return self._excludes(name, value, second, its)
        if kind.kind == "dtype" and name and second == Feature("dtype"):
            wanted = its if value == SAME else value
            return (wanted, its) not in dtype_pairs(self.capability, name) or (value != SAME and value == its)
        if kind.kind == "layout" and second == Feature("rank"):
            axes = len({*op.operand(name).axes} - {OUTER}) - len(op.inner) + int(its)
            return OUTER in op.operand(name).axes and value not in classes_of(axes)
        if kind == Feature("recipe", op.main):
            return second.kind == "parameter" and about in zeroed(self.capability, value) and float(its) != 0
        return kind.kind == "stack" and value == "many" and other in ((ROWS, "1"), (Feature("rank"), "1"))

    def _excludes(self, name: str, value: Any, second: Feature, its: Any) -> bool:
        """Whether a condition on the extent of the dimension `name`, or for '' that two extents are equal and above 1,
        makes another condition on extents impossible. There are at least as many rows as elements along each dimension
        that they are counted over."""
        op = OPS[self.capability.op]
        counted = op.inner[:-1]
        if not name:
            dims = counted if second == ROWS else (op.row,) if second == N else (second.subject,)
            return its == "1" and not {*dims}.isdisjoint(value)
        if name not in counted or second != ROWS:
            return False
        alone = counted == (name,) and OUTER not in op.operand(op.main).axes
        return value != its if alone else SPANS[value][0] > SPANS[its][1]

    def part(self, turn: int) -> int:
        """Return the number of pairs in the part that a turn aims at."""
        return len(range(turn % PARTS, len(self._ones), PARTS))

    def visited(self, turn: int, before: int, cases: Iterable[Iterable[Label]]) -> int:
        """Return the visited pairs of the turn's part as bits: the pairs `before`, and those met by these cases."""
        together, part = Together(), slice(turn % PARTS, None, PARTS)
        ones, others = self._ones[part].tolist(), self._others[part].tolist()
        for labels in cases:
            together.see(self._conditions.holding(labels))
        left, beside, bits = ~before & ((1 << len(ones)) - 1), together.beside, self._bits
        while left:
            lowest = left & -left
            place = lowest.bit_length() - 1
            if beside.get(bits[ones[place]], 0) & bits[others[place]]:
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
        at = turn % PARTS + number * PARTS
        return self._every[self._ones[at]], self._every[self._others[at]]

    def draw(self, sketch: Sketch, pair: Pair, turn: int, number: int, dice: Dice, more: Dice) -> Draw:
        """Return a draw in which the pair holds. The conditions of all other kinds are random, so other pairs are
        visited too. `more` is a second dice, since one has too few rolls for everything."""
        rounds, at = divmod(number, self._prime)
        planned = (
            of_kind[(at + rounds * column) % self._prime % len(of_kind)] for column, of_kind in enumerate(self._kinds)
        )
        types, wanted, gaps = dict[str, str](), list[Label](), corners_of(self.capability).gaps(0, 0)
        for condition in chain((each for each in pair if each[0].kind not in SHAPE), planned):
            # Labels that contradict a chosen dtype would be ignored: five of six dtypes were.
            of_types = self._labels[condition]
            if () not in of_types:
                fitting = [each for each in of_types if all(types.get(name, dtype) == dtype for name, dtype in each)]
                chosen = more.pick(fitting or [*of_types])
                types = {**dict(chosen), **types}
                wanted.append(more.pick(of_types[chosen]))
            else:
                wanted.append(more.pick(of_types[()]))
        is_deep = any(kind.kind == "layout" and answer in _DEEP for kind, answer in wanted)
        return steer_as_shaped(self._shape(sketch, pair, is_deep, more), self.capability, gaps, wanted, turn, dice)

    def _shape(self, sketch: Sketch, pair: Pair, is_deep: bool, dice: Dice) -> Sketch:
        """Return the sketch with a shape that meets the pair's conditions on shapes, with two axes besides that of rows
        if it `is_deep` and the conditions allow that."""
        mask = sum(self._conditions.bits[each] for each in pair if each[0].kind in SHAPE)
        fitting = self._fitting.get((mask, is_deep))
        if fitting is None:
            every = [each for each, holding in self._shapes if holding & mask == mask]
            deep = [each for each in every if len(each[0]) > 1] if is_deep else []
            fitting = self._fitting[mask, is_deep] = deep or every
        outer, axis, n = fitting[dice.below(1 + dice.below(1 + dice.below(len(fitting))))]  # preferably a small one
        return replace(sketch, n=n, rows=math.prod(outer), rank=len(outer) + 1, axis=axis, outer=outer)


def _types_of(label: Label, main: str) -> _Types:
    """Return the dtypes that a label implies, by tensor."""
    kind, answer = label
    if kind.kind == "alignment":
        return ((kind.subject, str(kind.operand)),)
    if kind.kind != "dtype":
        return ()
    return (
        ((kind.subject, str(answer[0])), (main, str(answer[2])))
        if isinstance(answer, tuple)
        else ((main, str(answer)),)
    )


def _late(kind: Feature) -> int:
    """Return how late in a draw a condition of this kind is chosen."""
    return 2 if kind.kind == "address" else int(kind.kind == "dtype" and bool(kind.subject))


def _prime_from(least: int) -> int:
    """Return the smallest prime number that is at least `least`, or 2."""
    return next(n for n in count(max(2, least)) if all(n % divisor for divisor in range(2, n)))


def _labels_of(extents: Extents) -> Sequence[Label]:
    outer, axis, n = extents
    return *length_labels(n), *frame_labels(outer, axis, n)


_AXES: Mapping[str, Sequence[Kind]] = {
    "values": ("recipe",), "layouts": ("layout", "address", "alias", "stack", "axis", "rank"),
    "extents": ("n", "rows", "row remainder", "next to a power", "extents", "extent", "equal extents"),
    "parameters": ("parameter", "presence"), "dtypes": ("dtype",),
}  # fmt: skip
"""The kinds of conditions by what they are about."""
_AXIS_OF = {kind: axis for axis, kinds in _AXES.items() for kind in kinds}


@dataclass(frozen=True)
class PairCoverage:
    """How many pairs of conditions kernels allow, and which of these never held together."""

    allowed: int
    never: Sequence[Pair]
    """The pairs that never held together. Pairs that concern how a kernel walks through memory come first."""
    table: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By what two conditions are about, such as "values by layouts": how many pairs held together, and of how many."""

    @property
    def share(self) -> float:
        """The share of the pairs that held together."""
        return 1 - len(self.never) / self.allowed if self.allowed else 1.0

    @property
    def record(self) -> dict[str, Any]:
        """The coverage as JSON, with labels in words."""
        return {
            "allowed": self.allowed,
            "share": round(self.share, 4),
            "table": {about: list(counts) for about, counts in self.table.items()},
            "never": [list(map(label_words, pair)) for pair in self.never],
        }


def held(capabilities: Sequence[Capability], together: Together) -> PairCoverage:
    """Return how many pairs at least one of these capabilities allows, and which pairs never held together. All
    capabilities are for one op."""
    allowed = {pair: None for each in capabilities for pair in pairing_of(each).all}
    bits = conditions_of(capabilities[0].op).bits if capabilities else {}
    never = [pair for pair in allowed if not together.has(bits[pair[0]], bits[pair[1]])]
    every, left = (Counter(map(_about, pairs)) for pairs in (allowed, never))
    order = [f"{one} by {other}" for one, other in combinations_with_replacement(_AXES, 2)]
    table = {about: (every[about] - left[about], every[about]) for about in order if about in every}
    return PairCoverage(len(allowed), sorted(never, key=lambda pair: sum(map(_weight, pair))), table)


def _about(pair: Pair) -> str:
    """Return what two conditions are about, in the order of the axes."""
    one, other = sorted((_AXIS_OF[each[0].kind] for each in pair), key=[*_AXES].index)
    return f"{one} by {other}"


def _weight(condition: Condition) -> int:
    """Return a rank that is lower for conditions with more known bugs: shapes, then dtypes and layouts, then values."""
    kind = condition[0].kind
    return 0 if kind in SHAPE else 1 if kind in ("dtype", "layout", "stack", "address", "alias") else 2


@remembered(256)
def pairing_of(capability: Capability) -> Pairing:
    """Return the pairs of conditions that cases for a capability can meet."""
    return Pairing(capability)
