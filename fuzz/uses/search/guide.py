"""Guidance: what judged cases tell of where errors are large for what is allowed, and relatives of those cases.

A fault of a size shows first as a passing case that is less accurate than the others. The most accurate kernel has its
worst cases too, and is searched around them as well: nothing here knows which kernel is wrong.

It climbs by sizes, recipes and parameters alone. The values of every relative are drawn anew: values that were picked
for their errors would no longer be random, and the statistical budget holds for random ones only.

What a guide knows is what it was told, in the order of the search: the same lessons make the same guide in every
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fuzz.adapters.target import TargetId
from fuzz.base.capability import Capability
from fuzz.base.draw import Draw
from fuzz.base.stream import Dice, Stream
from fuzz.base.verdict import Verdict
from fuzz.generate.relatives import CHANGES, filled
from fuzz.generate.search import Proposal
from fuzz.generate.turn import Made
from fuzz.judge.judge import Judgement

RELATIVES = 8
"""A guide may add at most this many cases to a turn."""
_TRIES = 4
"""This many tries are made at a relative that its kernel takes."""
_PATIENCE = 8
"""After this many relatives without a better one, a case counts half."""
_LEAST = 2
"""A turn has at least this many relatives, however seldom they are worse than what they were made of."""
_MEMORY = 32
"""The success of relatives is averaged over this many of them."""
_HOPE = 0.25
"""From this share of successes on there are as many relatives as there may be. The share is also taken to be this at
first."""

_SHARPNESS = 4
"""A case is chosen by this power of its promise: one twice as near to a failure is chosen sixteen times as often."""
_ASIDE = 4
"""One relative in this many is of a size class taken blindly."""

_T = TypeVar("_T")

Cell = tuple[str, ...]
"""Cases of one kind have this in common: size class, dtype, recipe and the output that is worst. A case of a new kind
is kept however accurate it is."""


@dataclass(frozen=True)
class Elite:
    """A lesson: the worst passing case of a kernel in one cell is this one."""

    kernel: str
    cell: Cell
    ratio: float
    draw: Draw
    capability: Capability


@dataclass(frozen=True)
class Attempt:
    """A lesson: a relative was made of the kernel's elite of that cell by `change`, and was worse than it, or not."""

    kernel: str
    cell: Cell
    change: str
    worse: bool


Lesson = Elite | Attempt


@dataclass(frozen=True)
class Relative:
    """A case near an elite, by one change."""

    made: Made
    elite: Elite
    change: str = ""
    """'' where no change gave a case that the kernel takes."""


@dataclass
class _Climb:
    """What is known of one kernel."""

    elites: dict[Cell, Elite] = field(default_factory=dict)
    failures: dict[Cell, int] = field(default_factory=dict)
    """The number of relatives made of an elite since it became the worst."""
    wins: dict[str, int] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    """By the name of a change, `wins` counts the relatives that were worse than their elite, and `tries` counts all."""

    def change(self, dice: Dice) -> str:
        """One of the changes, the more likely the more often it made a case worse."""
        rates = [(name, (1 + self.wins.get(name, 0)) / (2 + self.tries.get(name, 0))) for name in CHANGES]
        return _weighted(rates, dice)

    def promise(self, elite: Elite) -> float:
        """How much is to be hoped of it."""
        return elite.ratio * _PATIENCE / (_PATIENCE + self.failures.get(elite.cell, 0))


Make = Callable[[Sequence[Proposal]], Sequence[Made | None]]
"""Realises draws as the relatives of those numbers; None for one that its capability refuses."""


@dataclass
class _Try:
    """A relative that is looked for."""

    climb: _Climb
    elite: Elite
    dice: Dice
    place: int
    change: str = ""

    def proposal(self) -> Proposal:
        """The elite with other values, one thing changed and, half of the time, as many rows as fit: every one is
        another chance."""
        elite, dice = self.elite, self.dice
        self.change = self.climb.change(dice)
        draw = CHANGES[self.change](elite.draw, elite.capability, dice)
        draw = filled(draw) if dice.one_in(2) else draw
        return (
            replace(draw, seed=Stream(elite.draw.seed).child(f"relative {dice.below(2**32)}").key),
            elite.capability,
            self.place,
        )

    def again(self, make: Make) -> Made | None:
        """Another one, after the first was refused; in the end the elite itself."""
        for _ in range(_TRIES - 1):
            (made,) = make([self.proposal()])
            if made is not None:
                return made
        self.change = ""
        return make([(self.elite.draw, self.elite.capability, self.place)])[0]


class Guide:
    """Proposes relatives of the worst cases that it was told of."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._climbs: dict[str, _Climb] = {}
        """What is known, by kernel."""
        self._success = _HOPE
        """The share of relatives that were worse than what they were made of, of late."""

    def learn(self, lessons: Iterable[object]) -> None:
        """What one turn has taught."""
        for lesson in lessons:
            assert isinstance(lesson, Elite | Attempt)
            climb = self._climbs.setdefault(lesson.kernel, _Climb())
            if isinstance(lesson, Elite):
                known = climb.elites.get(lesson.cell)
                if known is None or lesson.ratio > known.ratio:
                    climb.elites[lesson.cell] = lesson
                    climb.failures[lesson.cell] = 0
            else:
                climb.failures[lesson.cell] = climb.failures.get(lesson.cell, 0) + 1
                climb.tries[lesson.change] = climb.tries.get(lesson.change, 0) + 1
                climb.wins[lesson.change] = climb.wins.get(lesson.change, 0) + lesson.worse
                self._success += (lesson.worse - self._success) / _MEMORY

    def relatives(self, turn: int, make: Make) -> list[Relative]:
        """Cases near the worst ones, for each kernel in turn: the fewer the less they helped of late."""
        kernels = list(self._climbs)
        count = max(_LEAST, round(RELATIVES * min(1.0, self._success / _HOPE))) if kernels else 0
        tries = []
        for place in range(count):
            climb = self._climbs[kernels[(turn * RELATIVES + place) % len(kernels)]]
            dice = Dice(Stream(self._seed).child(f"relative {place} of turn {turn}"))
            tries.append(_Try(climb, _chosen(climb, dice), dice, place))
        first = make([each.proposal() for each in tries]) if tries else ()
        mades = [made or each.again(make) for made, each in zip(first, tries, strict=True)]
        return [Relative(m, each.elite, each.change) for m, each in zip(mades, tries, strict=True) if m is not None]

    def lessons(self, judged: Iterable[tuple[Made | Relative, Sequence[Judgement]]]) -> list[Lesson]:
        """What the judgements of one turn teach that is not known yet."""
        best: dict[tuple[str, Cell], Elite] = {}
        attempts = []
        for case, judgements in judged:
            made = case.made if isinstance(case, Relative) else case
            worst: dict[str, float] = {}
            for elite in _passed(made, judgements):
                worst[elite.kernel] = max(worst.get(elite.kernel, 0.0), elite.ratio)
                key = elite.kernel, elite.cell
                climb = self._climbs.get(elite.kernel)
                known = best.get(key) or (climb.elites.get(elite.cell) if climb is not None else None)
                if known is None or elite.ratio > known.ratio:
                    best[key] = elite
            if isinstance(case, Relative) and case.change:
                parent = case.elite
                worse = worst.get(parent.kernel, 0.0) > parent.ratio
                attempts.append(Attempt(parent.kernel, parent.cell, case.change, worse))
        return [*attempts, *best.values()]


def _passed(made: Made, judgements: Sequence[Judgement]) -> Iterator[Elite]:
    """Where the case of a draw passed, as what it is to each kernel."""
    draw = made.draw
    if draw is None or any(part.given is not None for part in draw.parts):
        return
    x = draw.part("x")
    for judgement in judgements:
        check = judgement.worst
        if judgement.verdict is Verdict.PASS and check is not None and not check.blunt:
            kernel = TargetId.parse(judgement.target).implementation
            cell = (str(_size_class(draw.n)), x.dtype, x.recipe, check.output)
            yield Elite(kernel, cell, judgement.ratio, draw, made.capability)


def _size_class(n: int) -> int:
    """Rows of about one length, within a factor of four."""
    return n.bit_length() // 2


def _chosen(climb: _Climb, dice: Dice) -> Elite:
    """The more promising, the likelier; now and then of one size class alone: short rows are the worst of most kernels,
    and must not hide the long ones."""
    elites = list(climb.elites.values())
    if dice.one_in(_ASIDE):
        size = dice.pick(sorted({_size_class(elite.draw.n) for elite in elites}))
        elites = [elite for elite in elites if _size_class(elite.draw.n) == size]
    return _weighted([(elite, climb.promise(elite) ** _SHARPNESS + 1e-9) for elite in elites], dice)


def _weighted(options: Sequence[tuple[_T, float]], dice: Dice) -> _T:
    """One of them, by its weight."""
    left = dice.below(2**20) / 2**20 * sum(weight for _, weight in options)
    for option, weight in options:
        left -= weight
        if left < 0:
            return option
    return options[-1][0]
