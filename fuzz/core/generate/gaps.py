"""The corners of one capability as bits of a number, and the coverage gaps that a turn of the search aims at. All that
a shard has visited fits in one number, which is small enough to travel with every turn and quick to test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import gcd

from fuzz.core.base.capability import Capability
from fuzz.core.base.feature import Answer, Feature, Label
from fuzz.core.generate.coverage import length_labels
from fuzz.core.generate.sketch import N
from fuzz.core.generate.space import space_of
from oracles.ops import remembered

PARTS = 64
"""The number of parts that the gaps of each kind are divided into. Each turn starts with the next part, so that shards
that run side by side fill different gaps."""


ALONE = Feature("memory")
"""The kind of gap that can be filled only if it is asked for first."""
ASKED = 14
"""The number of gaps that a turn asks for at once. Filling more is not worth the time."""
_ALONE_EVERY = 5
"""In one request of twice this many, gaps of the kind ALONE come first."""


@dataclass(frozen=True)
class _Kind:
    """One kind of label. Its answers have neighbouring bits."""

    name: Feature
    values: tuple[Answer, ...]
    first: int
    step: int
    """The step, counted in answers, from one requested gap to the next."""

    @property
    def mask(self) -> int:
        """A mask with one bit for each answer, starting at the lowest bit."""
        return (1 << len(self.values)) - 1

    def next_to(self, waiting: int, place: int) -> Label:
        """Return the first answer whose bit is set in `waiting`, starting at a position that depends on `place` and
        wrapping around. `waiting` is not 0."""
        at = place * self.step % len(self.values)
        later = waiting >> at
        found = at + _lowest(later) if later else _lowest(waiting)
        return self.name, self.values[found]


def _step(name: str, size: int) -> int:
    """Return a step without a common factor with `size`. The steps of two kinds mostly differ, so that the same pair of
    answers rarely comes up again."""
    return next(step for step in count(7 + sum(name.encode()) % 32) if gcd(step, size) == 1)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


class Corners:
    """The labels that cases for one capability can visit, each as one bit."""

    def __init__(self, capability: Capability) -> None:
        self._kinds: list[_Kind] = []
        self._bits: dict[Label, int] = {}
        for name, values in space_of([capability]).items():
            self._kinds.append(_Kind(name, values, len(self._bits), _step(name.label(), len(values))))
            for value in values:
                self._bits[name, value] = 1 << len(self._bits)
        self.size = len(self._bits)
        self.everything = (1 << self.size) - 1
        self._of_lengths: dict[int, int] = {}

    def seen(self, labels: Iterable[Label]) -> int:
        """Return the labels as bits. A label that cases for the capability cannot visit has no bit."""
        found = 0
        for label in labels:
            found |= self._bits.get(label, 0)
        return found

    def of_length(self, n: int) -> int:
        """Return the bits of the labels that follow from a row length n."""
        bits = self._of_lengths.get(n)
        if bits is None:
            bits = self._of_lengths[n] = self.seen(length_labels(n))
        return bits

    @cached_property
    def _parts(self) -> Sequence[int]:
        """For each of the `PARTS` parts, the bits of its gaps."""
        parts = [0] * PARTS
        for kind in self._kinds:
            for index in range(len(kind.values)):
                parts[index * PARTS // max(len(kind.values), PARTS) % PARTS] |= 1 << (kind.first + index)
        return parts

    def gaps(self, visited: int, turn: int) -> Gaps:
        """Return the gaps that are left in a turn, given the bits of visited labels."""
        return Gaps(self, self.everything & ~visited, self._parts[turn % PARTS])

    def wanted(self, waiting: int, place: int) -> list[Label]:
        """Return one gap for each kind that has any, a different gap for each `place`. The kind with the most gaps
        comes first.

        At every second place another kind comes first, so that a gap that cannot be filled does not keep the others
        waiting. The row length comes next, since only the first gap that is about the length can decide it. The kind
        ALONE comes first more often than others.
        """
        pair, odd = divmod(place, 2)
        left = [(kind, bits) for kind in self._kinds if (bits := waiting >> kind.first & kind.mask)]
        if not left:
            return []
        turned = pair % len(left)  # kinds with the same number of gaps take turns
        order = sorted(left[turned:] + left[:turned], key=lambda each: -each[1].bit_count())
        if not odd:
            return [kind.next_to(bits, pair) for kind, bits in order[:ASKED]]
        rounds, rest = divmod(pair, _ALONE_EVERY)
        alone = [each for each in left if each[0].name == ALONE] if rest == 0 else []
        turns, first = (rounds, left.index(alone[0])) if alone else divmod(pair - rounds, len(left))
        order.remove(left[first])
        order.sort(key=lambda each: each[0].name != N)
        later = [kind.next_to(bits, pair + len(kind.values) // 2) for kind, bits in order[: ASKED - 1]]
        return [left[first][0].next_to(left[first][1], turns), *later]


@dataclass(frozen=True)
class Gaps:
    """The coverage gaps of one capability that are left for one turn."""

    corners: Corners
    waiting: int
    """The gaps that no case of the shard has visited."""
    part: int
    """The gaps, as bits, of the part that this turn starts with."""

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def without(self, visited: int) -> Gaps:
        """Return the gaps that remain after the visited ones are removed."""
        return Gaps(self.corners, self.waiting & ~visited, self.part)

    def wanted(self, place: int) -> list[Label]:
        """Return one gap for each kind that has any, a different gap for each `place`."""
        return self.corners.wanted(self.waiting, place)

    def wants(self, label: Label) -> bool:
        """Whether a label is one of the gaps."""
        return bool(self.waiting & self.corners.seen([label]))

    def filled(self, n: int) -> tuple[int, int]:
        """Return the number of gaps that a row length n fills: in this turn's part, and in all."""
        bits = self.corners.of_length(n) & self.waiting
        return (bits & self.part).bit_count(), bits.bit_count()


@remembered(256)
def corners_of(capability: Capability) -> Corners:
    """Return the corners that cases for a capability can visit."""
    return Corners(capability)
