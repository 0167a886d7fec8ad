"""Guidance of a search: it learns from judged cases where errors are large, and proposes relatives of those cases.

A kernel with a fault often shows it first in passing cases that are less accurate than others. Every kernel is searched
around its own worst cases, even the most accurate one: a guide does not know which kernel is wrong.

Only extents, recipes and parameters are varied. The values of a relative are drawn anew, because values that are chosen
for their errors are not random, and the statistical budget holds for random values only. A guide knows nothing but the
lessons that it was given, in the order of the search, so equal lessons make equal guides in every process.
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
"""The most cases that a guide adds to a turn."""
_TRIES = 4
"""The number of attempts to make a relative that the kernel accepts. Chosen."""
_PATIENCE = 8
"""The number of relatives without a worse one after which the promise of a case is halved. Chosen."""
_LEAST = 2
"""The least number of relatives in a turn, even if they seldom succeed. Chosen."""
_MEMORY = 32
"""The number of relatives over which the share of successes is averaged. Chosen."""
_HOPE = 0.25
"""The share of successes from which on a turn has RELATIVES relatives; also the share that is assumed first. Chosen."""

_SHARPNESS = 4
"""The power to which a case's promise is raised: one twice as near to failing is chosen 16 times as often."""
_ASIDE = 4
"""For one relative in this many, its size class is chosen first, without regard to promise. Chosen."""

_MOST_WORK = 1 << 18
"""The most terms in the largest step (`Op.work`) of a case that gets relatives: these take as long as a turn.
Chosen."""
_T = TypeVar("_T")

Cell = tuple[str, ...]
"""The size class, dtype, recipe and worst output of a case. The first case in a new cell is kept, accurate or not."""


class Elite(Struct, frozen=True, tag="elite", array_like=True):
    """A lesson: the worst passing case of a kernel in one cell."""

    kernel: str
    cell: Cell
    ratio: float
    draw: Draw
    capability: int
    """The index of its capability in the search."""


class ClimbStep(Struct, frozen=True, tag="attempt", array_like=True):
    """A lesson: whether a relative of the kernel's elite in this cell, made by `change`, was worse than the elite."""

    kernel: str
    cell: Cell
    change: str
    worse: bool


Lesson = Elite | ClimbStep
packed_lessons = Encoder().encode
"""Encodes the lessons of one turn as bytes."""
NO_LESSONS = packed_lessons([])
lessons_from = Decoder(list[Lesson]).decode
"""Decodes the lessons of one turn."""


@dataclass(frozen=True)
class Relative(Made):
    """A case that was made from an elite by one change."""

    elite: Elite
    change: str = ""
    """The name of the change; '' if no change gave a case that the kernel accepts."""


@dataclass
class _Climb:
    """The elites of one kernel, and how often their relatives were worse."""

    elites: dict[Cell, Elite] = field(default_factory=dict)
    weights: dict[Cell, float] = field(default_factory=dict)
    """The weight by which each elite is chosen. It is stored, since it is read far more often than it changes."""
    sizes: dict[int, list[Cell]] = field(default_factory=dict)
    """The cells of each size class, in the order of `elites`."""
    failures: dict[Cell, int] = field(default_factory=dict)
    """The number of relatives of an elite since it became the worst of its cell."""
    wins: dict[str, int] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    """By the name of a change: `wins` counts the relatives that were worse than their elite, `tries` counts all."""

    def keep(self, elite: Elite) -> None:
        """Store the elite of a cell, if it is worse than the present one."""
        known = self.elites.get(elite.cell)
        if known is None:
            self.sizes.setdefault(_size_class(elite.draw.n), []).append(elite.cell)
        if known is None or elite.ratio > known.ratio:
            self.elites[elite.cell] = elite
            self.failures[elite.cell] = 0
            self._weigh(elite)

    def count(self, attempt: ClimbStep) -> None:
        """Count the result of a relative."""
        cell, change = attempt.cell, attempt.change
        self.failures[cell] = self.failures.get(cell, 0) + 1
        self.tries[change] = self.tries.get(change, 0) + 1
        self.wins[change] = self.wins.get(change, 0) + attempt.worse
        if cell in self.elites:
            self._weigh(self.elites[cell])

    def _weigh(self, elite: Elite) -> None:
        """Recompute the weight of an elite."""
        promise = elite.ratio * _PATIENCE / (_PATIENCE + self.failures[elite.cell])
        self.weights[elite.cell] = promise**_SHARPNESS + 1e-9

    def change(self, dice: Dice) -> str:
        """Return the name of a change, at random; changes that gave worse cases more often are likelier."""
        return _weighted({name: (1 + self.wins.get(name, 0)) / (2 + self.tries.get(name, 0)) for name in CHANGES}, dice)

    def chosen(self, dice: Dice) -> Elite:
        """Return an elite to vary, at random by weight. For one in `_ASIDE` a size class is chosen first: most kernels
        are worst on short rows, which must not hide the long ones."""
        weights = self.weights
        if dice.one_in(_ASIDE):
            weights = {cell: weights[cell] for cell in self.sizes[dice.pick(sorted(self.sizes))]}
        return self.elites[_weighted(weights, dice)]


Make = Callable[[Sequence[Proposal]], Sequence[Made | None]]
"""A function that makes the cases of draws; None for a draw that its capability refuses."""


@dataclass
class _Try:
    """An attempt to make a relative of an elite."""

    climb: _Climb
    elite: Elite
    capability: Capability
    dice: Dice
    place: int
    change: str = ""

    def proposal(self) -> Proposal:
        """Return a draw of the elite with new values and one change. Half of the draws have as many rows as fit, since
        every row is another chance."""
        elite, dice = self.elite, self.dice
        self.change = self.climb.change(dice)
        draw = CHANGES[self.change](elite.draw, self.capability, dice)
        draw = filled(draw) if dice.one_in(2) else draw
        fresh = Stream(elite.draw.seed).child(f"relative {dice.below(2**32)}").key
        return replace(draw, seed=fresh), self.capability, self.place

    def again(self, make: Make) -> Made | None:
        """Return a case of another draw, after the first was refused, and in the end the elite itself."""
        for _ in range(_TRIES - 1):
            (made,) = make([self.proposal()])
            if made is not None:
                return made
        self.change = ""
        return make([(self.elite.draw, self.capability, self.place)])[0]


class Guide:
    """Proposes relatives of the worst cases among its lessons."""

    def __init__(self, seed: int, capabilities: Sequence[Capability]) -> None:
        """`capabilities` are all capabilities of the search."""
        self._seed, self._capabilities = seed, capabilities
        self._places = {each: place for place, each in enumerate(capabilities)}
        self._climbs: dict[str, _Climb] = {}
        """The elites of each kernel, by the kernel's name."""
        self._success = _HOPE
        """The recent share of relatives that were worse than their elites."""

    def learn(self, lessons: Iterable[Lesson]) -> None:
        """Learn the lessons of one turn."""
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
        """Return relatives of the worst cases, from one kernel after the other; fewer if recent ones seldom
        succeeded."""
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
        """Return the lessons of one turn's judgements that the guide does not know yet."""
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
        """Yield a possible elite for each kernel that a drawn case passes on."""
        draw, place = made.draw, self._places.get(made.capability)
        if place is None or draw is None or draw.work > _MOST_WORK or any(part.given for part in draw.parts):
            return  # it has no capability: a sketch of a case to reject may turn out to be acceptable
        main = draw.part(OPS[draw.op].main)
        for judgement in judgements:
            check = judgement.worst
            if judgement.verdict is Verdict.PASS and check is not None and not check.blunt:
                kernel = TargetId.parse(judgement.target).implementation
                cell = (str(_size_class(draw.n)), main.dtype, main.recipe, check.output)
                yield Elite(kernel, cell, judgement.ratio, draw, place)


def _size_class(n: int) -> int:
    """Return the size class of a row length; lengths of one class differ by at most a factor of four."""
    return n.bit_length() // 2


def _weighted(weights: Mapping[_T, float], dice: Dice) -> _T:
    """Return one of the options, at random by weight."""
    left = dice.below(2**20) / 2**20 * sum(weights.values())
    for option, weight in weights.items():
        left -= weight
        if left < 0:
            return option
    return option
