"""Guidance: what judged cases say about where errors are large for what is allowed, and relatives of those cases.

A fault of a size shows first as a passing case that is less accurate than the others. The most accurate kernel has its
worst cases too and is searched around them as well: nothing here knows which kernel is wrong.

Only sizes, recipes and parameters are varied. Every relative's values are drawn anew: values picked for their errors
would not be random any more, and the statistical budget holds for random ones only. What a guide knows is the lessons
it was given, in the order of the search; equal lessons make equal guides in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from fuzz.core.adapters.target import TargetId
from fuzz.core.base.capability import Capability
from fuzz.core.base.draw import Draw
from fuzz.core.base.stream import Dice, Stream, dice_each
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.relatives import CHANGES, filled
from fuzz.core.generate.search import Proposal
from fuzz.core.generate.turn import Made
from fuzz.core.judge.judge import Judgement
from oracles.ops import OPS

RELATIVES = 8
"""A guide may add at most this many cases to a turn."""
_TRIES = 4
"""How often a relative that its kernel takes is tried for. Chosen."""
_PATIENCE = 8
"""After this many relatives without a worse one, a case's promise is halved. Chosen."""
_LEAST = 2
"""A turn has at least this many relatives, however seldom they were worse than their originals. Chosen."""
_MEMORY = 32
"""The success of relatives is averaged over about this many. Chosen."""
_HOPE = 0.25
"""From this share of successes on, a turn has RELATIVES relatives. It is also the share assumed at first. Chosen."""

_SHARPNESS = 4
"""A case is chosen by its promise to this power: one twice as near to a failure is chosen sixteen times as often."""
_ASIDE = 4
"""One relative in this many is of a size class chosen blindly. Chosen."""

_MOST_WORK = 1 << 18
"""A case whose largest step has more terms (`Op.work`) gets no relatives: they would take as long as the rest of a
turn. Chosen."""
_T = TypeVar("_T")

Cell = tuple[str, ...]
"""Size class, dtype, recipe and the output that is worst. A case of a new cell is kept, however accurate it is."""


class Elite(Struct, frozen=True, tag="elite", array_like=True):
    """A lesson: the worst passing case of a kernel in one cell."""

    kernel: str
    cell: Cell
    ratio: float
    draw: Draw
    capability: int
    """Its index among the capabilities of the search."""


class ClimbStep(Struct, frozen=True, tag="attempt", array_like=True):
    """A lesson: whether a relative, made by `change` of the kernel's elite of that cell, was worse than it."""

    kernel: str
    cell: Cell
    change: str
    worse: bool


Lesson = Elite | ClimbStep
packed_lessons = Encoder().encode
"""Writes the lessons of one turn as bytes."""
NO_LESSONS = packed_lessons([])
lessons_from = Decoder(list[Lesson]).decode
"""The inverse."""


@dataclass(frozen=True)
class Relative(Made):
    """A case that differs from an elite in one thing."""

    elite: Elite
    change: str = ""
    """What was changed; '' where no change gave a case that the kernel takes."""


@dataclass
class _Climb:
    """What is known of one kernel."""

    elites: dict[Cell, Elite] = field(default_factory=dict)
    weights: dict[Cell, float] = field(default_factory=dict)
    """How likely each elite is chosen, in the same order. Kept, since it is read far more often than it changes."""
    sizes: dict[int, list[Cell]] = field(default_factory=dict)
    """The cells of each size class, in the same order."""
    failures: dict[Cell, int] = field(default_factory=dict)
    """How many relatives an elite had since it became the worst of its cell."""
    wins: dict[str, int] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    """By the name of a change, `wins` counts the relatives that were worse than their elite, and `tries` counts all."""

    def keep(self, elite: Elite) -> None:
        """Put it in the place of its cell's elite if it is worse."""
        known = self.elites.get(elite.cell)
        if known is None:
            self.sizes.setdefault(_size_class(elite.draw.n), []).append(elite.cell)
        if known is None or elite.ratio > known.ratio:
            self.elites[elite.cell] = elite
            self.failures[elite.cell] = 0
            self._weigh(elite)

    def count(self, attempt: ClimbStep) -> None:
        """Count what became of a relative."""
        cell, change = attempt.cell, attempt.change
        self.failures[cell] = self.failures.get(cell, 0) + 1
        self.tries[change] = self.tries.get(change, 0) + 1
        self.wins[change] = self.wins.get(change, 0) + attempt.worse
        if cell in self.elites:
            self._weigh(self.elites[cell])

    def _weigh(self, elite: Elite) -> None:
        """Recompute its weight."""
        promise = elite.ratio * _PATIENCE / (_PATIENCE + self.failures[elite.cell])
        self.weights[elite.cell] = promise**_SHARPNESS + 1e-9

    def change(self, dice: Dice) -> str:
        """Return a change to make; one that made cases worse more often is likelier."""
        return _weighted({name: (1 + self.wins.get(name, 0)) / (2 + self.tries.get(name, 0)) for name in CHANGES}, dice)

    def chosen(self, dice: Dice) -> Elite:
        """Return an elite to vary, the more promising the likelier. Now and then one size class alone takes part: most
        kernels are worst on short rows, which must not hide the long ones."""
        weights = self.weights
        if dice.one_in(_ASIDE):
            weights = {cell: weights[cell] for cell in self.sizes[dice.pick(sorted(self.sizes))]}
        return self.elites[_weighted(weights, dice)]


Make = Callable[[Sequence[Proposal]], Sequence[Made | None]]
"""Makes the cases of these draws; None for one that its capability refuses."""


@dataclass
class _Try:
    """A relative that is being looked for."""

    climb: _Climb
    elite: Elite
    capability: Capability
    dice: Dice
    place: int
    change: str = ""

    def proposal(self) -> Proposal:
        """Return a draw of the elite with new values, one thing changed and, half of the time, as many rows as fit:
        every row is another chance."""
        elite, dice = self.elite, self.dice
        self.change = self.climb.change(dice)
        draw = CHANGES[self.change](elite.draw, self.capability, dice)
        draw = filled(draw) if dice.one_in(2) else draw
        fresh = Stream(elite.draw.seed).child(f"relative {dice.below(2**32)}").key
        return replace(draw, seed=fresh), self.capability, self.place

    def again(self, make: Make) -> Made | None:
        """Return another such case after the first was refused, or in the end the elite itself."""
        for _ in range(_TRIES - 1):
            (made,) = make([self.proposal()])
            if made is not None:
                return made
        self.change = ""
        return make([(self.elite.draw, self.capability, self.place)])[0]


class Guide:
    """Proposes relatives of the worst cases among its lessons."""

    def __init__(self, seed: int, capabilities: Sequence[Capability]) -> None:
        """`capabilities` are those of the search."""
        self._seed, self._capabilities = seed, capabilities
        self._places = {each: place for place, each in enumerate(capabilities)}
        self._climbs: dict[str, _Climb] = {}
        """What is known of each kernel, by name."""
        self._success = _HOPE
        """The recent share of relatives that were worse than their originals."""

    def learn(self, lessons: Iterable[Lesson]) -> None:
        """Take in the lessons of one turn."""
        for lesson in lessons:
            climb = self._climbs.get(lesson.kernel)
            if climb is None:
                climb = self._climbs[lesson.kernel] = _Climb()
            if isinstance(lesson, Elite):
                climb.keep(lesson)
            else:
                climb.count(lesson)
                self._success += (lesson.worse - self._success) / _MEMORY

    def relatives(self, turn: int, make: Make) -> list[Relative]:
        """Return cases near the worst ones of each kernel in turn; fewer if recent ones seldom helped."""
        kernels = list(self._climbs)
        count = max(_LEAST, round(RELATIVES * min(1.0, self._success / _HOPE))) if kernels else 0
        tries, streams = [], [Stream(self._seed).child(f"relative {place} of turn {turn}") for place in range(count)]
        for place, dice in enumerate(dice_each(streams)):
            climb = self._climbs[kernels[(turn * RELATIVES + place) % len(kernels)]]
            elite = climb.chosen(dice)
            tries.append(_Try(climb, elite, self._capabilities[elite.capability], dice, place))
        first = make([each.proposal() for each in tries]) if tries else ()
        mades = [made or each.again(make) for made, each in zip(first, tries, strict=True)]
        return [
            Relative(made.case, made.draw, made.capability, each.elite, each.change)
            for made, each in zip(mades, tries, strict=True)
            if made is not None
        ]

    def lessons(self, judged: Iterable[tuple[Made, Sequence[Judgement]]]) -> list[Lesson]:
        """Return what the judgements of one turn teach that is not known yet."""
        best: dict[tuple[str, Cell], Elite] = {}
        attempts = []
        for case, judgements in judged:
            worst: dict[str, float] = {}
            for elite in self._passed(case, judgements):
                worst[elite.kernel] = max(worst.get(elite.kernel, 0.0), elite.ratio)
                key = elite.kernel, elite.cell
                climb = self._climbs.get(elite.kernel)
                known = best.get(key) or (climb.elites.get(elite.cell) if climb is not None else None)
                if known is None or elite.ratio > known.ratio:
                    best[key] = elite
            if isinstance(case, Relative) and case.change:
                parent = case.elite
                worse = worst.get(parent.kernel, 0.0) > parent.ratio
                attempts.append(ClimbStep(parent.kernel, parent.cell, case.change, worse))
        return [*attempts, *best.values()]

    def _passed(self, made: Made, judgements: Sequence[Judgement]) -> Iterator[Elite]:
        """Yield what a case of a draw that passed is to each kernel: a possible elite."""
        draw, place = made.draw, self._places.get(made.capability)
        if place is None or draw is None or draw.work > _MOST_WORK or any(part.given for part in draw.parts):
            return  # it belongs to no capability: a sketch of what kernels reject may turn out to be fit
        main = draw.part(OPS[draw.op].main)
        for judgement in judgements:
            check = judgement.worst
            if judgement.verdict is Verdict.PASS and check is not None and not check.blunt:
                kernel = TargetId.parse(judgement.target).implementation
                cell = (str(_size_class(draw.n)), main.dtype, main.recipe, check.output)
                yield Elite(kernel, cell, judgement.ratio, draw, place)


def _size_class(n: int) -> int:
    """Return the class of rows of about this length, within a factor of four."""
    return n.bit_length() // 2


def _weighted(weights: Mapping[_T, float], dice: Dice) -> _T:
    """Return one of them, at random by weight."""
    left = dice.below(2**20) / 2**20 * sum(weights.values())
    for option, weight in weights.items():
        left -= weight
        if left < 0:
            return option
    return option
