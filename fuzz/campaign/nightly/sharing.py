"""How a night shares its time: an op is searched next if its latest slice added most per second to what it had shown,
and a target rests if it showed nothing that another one had not shown. Each op and each target has a floor.

What was new is stored with each slice, so that the choices follow from the seed and the stored slices, in a resumed
night and afterwards too.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.feature import label_words
from fuzz.core.generate.conditions import Together
from fuzz.core.judge.judge import Judgement
from fuzz.findings.database_views import SliceTotals, view
from fuzz.findings.tally import Observer, Tally

TRIAGE_SHARE = 0.2
"""The largest share of a night for shrinking and explaining."""
FLOOR = 0.5
"""The part of its equal share of the time that each op has, whatever it shows. Chosen: a bug may show in no number
before it fails."""
_LATEST = 2
"""A target rests if it showed nothing first in this many of its latest slices."""
_RUNS_ONE_IN = 4
"""A resting target takes part in one slice of its op in this many."""
_FIRST_S, _LONGEST_S = 30.0, 300.0
"""The seconds of an op's first slice, and of its longest. First slices are short, so that every op is searched early;
later ones are longer, since a slice takes time to begin."""


@dataclass(frozen=True)
class Slice:
    """A part of a night: one op is searched, with one seed, for at most `seconds`."""

    number: int
    op: str
    seed: int
    seconds: float


@dataclass(frozen=True)
class PastSlice:
    """A slice that an op had: its seconds, and how many new things it showed; None if it did not end."""

    seconds: float
    new: int | None


def promise(parts: Sequence[PastSlice]) -> float:
    """Return what an op's latest slice showed that was new, as a share of all that its slices showed, per second. Ops
    have spaces of very different sizes: by counts alone, most of the time would go to the largest."""
    done = [each for each in parts if each.new is not None]
    if not done or not done[-1].seconds:
        return math.inf
    return (done[-1].new or 0) / (1 + sum(each.new or 0 for each in done)) / done[-1].seconds


def chosen(seed: int, kernels: Mapping[str, int], used: Mapping[str, Sequence[PastSlice]], floor: float = FLOOR) -> str:
    """Return the op to search next: the one with the most promise, and of equal ones the one that had least, unless
    another had less than the floor. An equal share goes by the number of kernels; with a floor of 1 the time goes in
    turn. The seed breaks ties."""
    tie = {op: drawn(f"{seed}/first/{op}") for op in kernels}
    had = {op: sum(each.seconds for each in used.get(op, ())) / count for op, count in kernels.items()}
    poorest = min(kernels, key=lambda op: (had[op], tie[op]))
    equal = sum(had[op] * count for op, count in kernels.items()) / sum(kernels.values())
    if poorest not in used or had[poorest] <= floor * equal:
        return poorest
    return max(kernels, key=lambda op: (promise(used[op]), -had[op], -tie[op]))


def next_slice(
    night_seed: int, number: int, kernels: Mapping[str, int], used: Mapping[str, Sequence[PastSlice]], left: float
) -> Slice:
    """Return the next slice. It is twice as long as the op's last slice; while some ops had none, it leaves each of
    them its share.

    `kernels` are the numbers of running kernels by op, which share the op's cases; `number` counts all slices of the
    night, in earlier sessions too, so that no seed is used twice.
    """
    op = chosen(night_seed, kernels, used)
    to_come = sum(count for each, count in kernels.items() if each not in used)
    most = max(left / len(kernels), min(left, _FIRST_S))
    if to_come:
        most = left * (1.0 - TRIAGE_SHARE) * kernels[op] / to_come
    seconds = min(_FIRST_S * 2.0 ** len(used.get(op, ())), _LONGEST_S, most)
    return Slice(number, op, slice_seed(night_seed, number), seconds)


def searching_time(turn: Slice, left: float) -> float:
    """Return the seconds of search in a slice. Unless the night is nearly over, a share is left for explaining."""
    return min(turn.seconds, left if left <= _FIRST_S else left * (1.0 - TRIAGE_SHARE))


def slice_seed(night_seed: int, number: int) -> int:
    """Return the seed of a slice, for `kernelfuzz run --seed`."""
    return drawn(f"{night_seed}/slice/{number}")


def drawn(text: str) -> int:
    """Return a number of 32 bits that follows from the text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def resting(targets: Collection[str], slices: Sequence[SliceTotals]) -> frozenset[str]:
    """Return the targets of an op that rest in its next slice, given the slices that it had: those that showed nothing
    first in the latest slices in which they ran, and ran lately."""
    done = [each.new for each in slices if each.done]
    found = set[str]()
    for target in targets:
        ran = [new[target] for new in done if target in new]
        lately = any(target in new for new in done[1 - _RUNS_ONE_IN :])
        if len(ran) >= _LATEST and lately and not any(ran[-_LATEST:]):
            found.add(target)
    return frozenset(found) if len(found) < len(targets) else frozenset()


@dataclass
class News(Observer):
    """An observer that counts what is new: labels and pairs of an op's space, passing runs with a larger err/budget
    than before among rows of their length, and ways to fail. What several targets of a kernel show counts for the
    first one, so that the others have nothing new."""

    targets: Mapping[str, Target]
    new: Counter[str] = field(default_factory=Counter)
    """The count of what is new, by target; '' for what belongs to no target."""
    _labels: set[tuple[str, ...]] = field(default_factory=set)
    _pairs: dict[str, Together] = field(default_factory=dict)
    _worst: dict[tuple[object, ...], float] = field(default_factory=dict)
    _failures: set[tuple[str, ...]] = field(default_factory=set)

    def recall(self, engine: Engine, night: int) -> None:
        """Learn what the night had seen before it was resumed."""
        seen = view(engine, night)
        self._labels |= {(each.op, each.kind, each.value) for each in seen.coverage if each.visits}
        self._pairs |= seen.together
        for each in seen.accuracy:
            self._is_worse(each.target, (each.dtype, each.bin, each.worst_case), each.ratio)
        self._failures |= {(each.row.kernel, each.row.verdict, each.row.law) for each in seen.failing}

    def taken(self, ran: Collection[str]) -> dict[str, int]:
        """Return the counts since the last call, with a 0 for each target that ran and showed nothing."""
        new, self.new = {**dict.fromkeys(ran, 0), **self.new}, Counter()
        return new

    def counted(self, more: Tally) -> None:
        for op, visits in more.visits.items():
            labels = {(op, *label_words(label)) for label in visits if label[0].kind != "target"}
            self.new[""] += len(labels - self._labels)
            self._labels |= labels
        for op, together in more.together.items():
            pairs = self._pairs.setdefault(op, Together())
            self.new[""] += sum(
                (with_ & ~pairs.beside.get(bit, 0)).bit_count() for bit, with_ in together.beside.items()
            )
            pairs.add(together)
        for point, worst in (more.accuracy or {}).items():
            self.new[point.target] += self._is_worse(
                point.target, (point.dtype, point.bin, point.worst_case), worst.ratio
            )

    def failed(self, kernel: str, case: Case, judgement: Judgement, elapsed: float) -> None:
        way = kernel, judgement.verdict.value, judgement.broken_law_name
        self.new[judgement.target] += way not in self._failures
        self._failures.add(way)

    def _is_worse(self, target: str, group: tuple[object, ...], ratio: float) -> bool:
        key = (self.targets[target].kernel.name if target in self.targets else target, *group)
        is_worse = ratio > self._worst.get(key, -1.0)
        if is_worse:
            self._worst[key] = ratio
        return is_worse
