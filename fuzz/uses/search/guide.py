"""Guidance: what judged cases tell of where errors are large for what is allowed, and relatives of those cases.

A fault of a size shows first as a passing case that is less accurate than the others. The most accurate kernel has its
worst cases too, and is searched around them as well: nothing here knows which kernel is wrong.

It climbs by sizes, recipes and parameters alone. The values of every relative are drawn anew: values that were picked
for their errors would no longer be random, and the statistical budget holds for random ones only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fuzz.adapters.target import TargetId
from fuzz.base.capability import Capability
from fuzz.base.case import Case
from fuzz.base.draw import Draw
from fuzz.base.stream import Dice, Stream
from fuzz.base.verdict import Verdict
from fuzz.findings.tally import Observer
from fuzz.generate.realise import realise
from fuzz.generate.relatives import CHANGES, filled
from fuzz.generate.search import PLACES, Search, Turn, batches
from fuzz.generate.turn import BATCH
from fuzz.judge.judge import Judgement

_RELATIVES = 8
"""A guide may add at most this many cases to a batch."""
_REMEMBERED = 512
"""The draws of this many cases are kept until they are judged: more than are ever on their way."""
_TRIES = 4
"""This many tries are made at a relative that its kernel takes."""
_PATIENCE = 8
"""After this many relatives without a better one, a case counts half."""
_LEAST = 2
"""A batch has at least this many relatives, however seldom they are worse than what they were made of."""
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


@dataclass
class _Elite:
    """The worst passing case of a kernel in one cell."""

    ratio: float
    draw: Draw
    capability: Capability
    failures: int = 0
    """The number of relatives made of it since it became the worst."""

    @property
    def promise(self) -> float:
        return self.ratio * _PATIENCE / (_PATIENCE + self.failures)


@dataclass
class _Climb:
    """What is known of one kernel."""

    elites: dict[Cell, _Elite] = field(default_factory=dict)
    wins: dict[str, int] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    """By the name of a change, `wins` counts the relatives that were worse than their elite, and `tries` counts all."""

    def change(self, dice: Dice) -> str:
        """One of the changes, the more likely the more often it made a case worse."""
        rates = [(name, (1 + self.wins.get(name, 0)) / (2 + self.tries.get(name, 0))) for name in CHANGES]
        return _weighted(rates, dice)


@dataclass(frozen=True)
class _Made:
    """How a case was made that is to be judged."""

    draw: Draw
    capability: Capability
    kernel: str = ""
    """A relative was made of an elite of this kernel, by `change`."""
    ratio: float = 0.0
    change: str = ""


@dataclass
class Guide(Observer):
    """An observer that a search asks for cases. The same judgements give the same cases, whenever they come."""

    seed: int
    _made: OrderedDict[str, _Made] = field(default_factory=OrderedDict)
    """How cases were made, by the digest of the case."""
    _proposed: dict[int, _Made] = field(default_factory=dict)
    """The relatives that the search was given, by the seed of their draw."""
    _climbs: dict[str, _Climb] = field(default_factory=dict)
    """What is known, by kernel."""
    _turns: int = 0
    _success: float = _HOPE
    """The share of relatives that were worse than what they were made of, of late."""

    def drawn(self, case: Case, draw: Draw, capability: Capability) -> None:
        """Remember how a case was made that will be judged."""
        self._made[case.digest] = self._proposed.pop(draw.seed, _Made(draw, capability))
        while len(self._made) > _REMEMBERED:
            self._made.popitem(last=False)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        made = self._made.pop(case.digest, None)
        if made is None:
            return
        known: dict[str, float] = {}
        for judgement in judgements:
            check = judgement.worst
            if judgement.verdict is not Verdict.PASS or check is None or check.blunt:
                continue
            kernel = TargetId.parse(judgement.target).implementation
            known[kernel] = max(known.get(kernel, 0.0), judgement.ratio)
            cells = self._climbs.setdefault(kernel, _Climb()).elites
            cell = (str(_size_class(made.draw.n)), made.draw.part("x").dtype, made.draw.part("x").recipe, check.output)
            if cell not in cells or judgement.ratio > cells[cell].ratio:
                cells[cell] = _Elite(judgement.ratio, made.draw, made.capability)
        if made.kernel:
            self._learn(made, known.get(made.kernel, 0.0) > made.ratio)

    def _learn(self, made: _Made, success: bool) -> None:
        climb = self._climbs[made.kernel]
        climb.tries[made.change] = climb.tries.get(made.change, 0) + 1
        climb.wins[made.change] = climb.wins.get(made.change, 0) + success
        self._success += (success - self._success) / _MEMORY

    def relatives(self, count: int) -> list[tuple[Draw, Capability]]:
        """Up to `count` draws near the worst cases, for each kernel in turn: the fewer the less they helped of late."""
        kernels = list(self._climbs)
        most = max(_LEAST, round(count * min(1.0, self._success / _HOPE)))
        found = []
        for _ in range(min(most, count) if kernels else 0):
            kernel = kernels[self._turns % len(kernels)]
            dice = Dice(Stream(self.seed).child(f"guide {self._turns}"))
            made = self._relative(kernel, dice)
            self._proposed[made.draw.seed] = made
            found.append((made.draw, made.capability))
            self._turns += 1
        return found

    def _relative(self, kernel: str, dice: Dice) -> _Made:
        """The draw of one of the kernel's elites with other values, one thing changed and, half of the time, as many
        rows as fit: every one is another chance."""
        climb = self._climbs[kernel]
        elite = _chosen(list(climb.elites.values()), dice)
        elite.failures += 1
        for _ in range(_TRIES):
            change = climb.change(dice)
            draw = CHANGES[change](elite.draw, elite.capability, dice)
            draw = filled(draw) if dice.one_in(2) else draw
            draw = replace(draw, seed=Stream(elite.draw.seed).child(f"relative {dice.below(2**32)}").key)
            if elite.capability.refusal(realise(draw)) is None:
                return _Made(draw, elite.capability, kernel, elite.ratio, change)
        return _Made(elite.draw, elite.capability)


def guided(search: Search, guide: Guide | None, *, big_first: bool = False) -> Iterator[list[Case]]:
    """The batches of a search, each with up to _RELATIVES cases more that the guide proposes, which is told of every
    draw. All others stay as they are."""
    for made in batches(search, big_first=big_first):
        cases, origin = [each.case for each in made], made[0].case.origin
        if guide is not None and isinstance(origin.shard, int):
            for each in made:
                if each.draw is not None:
                    guide.drawn(each.case, each.draw, each.capability)
            turn = Turn(origin.shard, origin.number // PLACES)
            for place, (draw, capability) in enumerate(guide.relatives(_RELATIVES), start=BATCH + 1):
                relative = search.relative(draw, capability, turn, place)
                if relative is not None:
                    guide.drawn(relative.case, draw, capability)
                    cases.append(relative.case)
        yield cases


def _size_class(n: int) -> int:
    """Rows of about one length, within a factor of four."""
    return n.bit_length() // 2


def _chosen(elites: list[_Elite], dice: Dice) -> _Elite:
    """The more promising, the likelier; now and then of one size class alone: short rows are the worst of most kernels,
    and must not hide the long ones."""
    if dice.one_in(_ASIDE):
        size = dice.pick(sorted({_size_class(elite.draw.n) for elite in elites}))
        elites = [elite for elite in elites if _size_class(elite.draw.n) == size]
    return _weighted([(elite, elite.promise**_SHARPNESS + 1e-9) for elite in elites], dice)


def _weighted(options: Sequence[tuple[_T, float]], dice: Dice) -> _T:
    """One of them, by its weight."""
    left = dice.below(2**20) / 2**20 * sum(weight for _, weight in options)
    for option, weight in options:
        left -= weight
        if left < 0:
            return option
    return options[-1][0]
