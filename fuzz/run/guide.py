"""Guidance: what judged cases tell of where errors are large for what is allowed, and relatives of those cases.

A fault of a size shows first as a passing case that is less accurate than the others. The most accurate kernel has its
worst cases too, and is searched around them as well: nothing here knows which kernel is wrong.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fuzz.case import Case
from fuzz.execute.accept import Taker
from fuzz.generate.dice import Dice
from fuzz.generate.draw import EPS, Draw
from fuzz.generate.menus import MENUS
from fuzz.generate.realise import realise
from fuzz.generate.shapes import LARGEST_CASE
from fuzz.generate.sketch import fitting_n
from fuzz.generate.stream import Stream
from fuzz.judge.judgement import Judgement
from fuzz.op import OPS
from fuzz.verdict import Verdict

_REMEMBERED = 512
"""cases whose draw is kept until they are judged: more than are ever on their way."""
_TRIES = 4
"""of a relative that its kernel takes."""
_COARSE = ("f16", "bf16")
"""dtypes whose own rounding is nearly all of every error: err/budget is about 1 there whatever the kernel does."""

Cell = tuple[str, ...]
"""what cases of one kind have in common: size class, dtype and recipe."""


@dataclass
class _Elite:
    """The worst passing case of a kernel in one cell."""

    ratio: float
    draw: Draw
    taker: Taker
    tried: int = 0
    """relatives made of it."""


@dataclass
class Guide:
    """An observer that a search asks for cases. The same judgements give the same cases, whenever they come."""

    seed: int
    _drawn: OrderedDict[str, tuple[Draw, Taker]] = field(default_factory=OrderedDict)
    """by digest of the case."""
    _elites: dict[str, dict[Cell, _Elite]] = field(default_factory=dict)
    """by kernel."""
    _turns: int = 0

    def drawn(self, case: Case, draw: Draw, taker: Taker) -> None:
        """Remember how a case was made that will be judged."""
        self._drawn[case.digest] = draw, taker
        while len(self._drawn) > _REMEMBERED:
            self._drawn.popitem(last=False)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        known = self._drawn.pop(case.digest, None)
        if known is None:
            return
        draw, taker = known
        for judgement in judgements:
            check = judgement.worst
            if judgement.verdict is not Verdict.PASS or check is None or case.outputs[check.output].dtype in _COARSE:
                continue
            cells = self._elites.setdefault(judgement.target.partition("@")[0], {})
            cell = (str(_size_class(draw.n)), draw.part("x").dtype, draw.part("x").recipe)
            if cell not in cells or judgement.ratio > cells[cell].ratio:
                cells[cell] = _Elite(judgement.ratio, draw, taker)

    def progress(self, elapsed: float) -> None:
        """Nothing to show."""

    def relatives(self, count: int) -> list[tuple[Draw, Taker]]:
        """Up to `count` draws near the worst cases, for each kernel in turn; none as long as nothing is known."""
        kernels = list(self._elites)
        found = []
        for _ in range(count if kernels else 0):
            elites = list(self._elites[kernels[self._turns % len(kernels)]].values())
            dice = Dice(Stream(self.seed).child(f"guide {self._turns}"))
            found.append(_relative(_chosen(elites, dice), dice))
            self._turns += 1
        return found


def _size_class(n: int) -> int:
    """Rows of about one length, within a factor of four."""
    return n.bit_length() // 2


def _chosen(elites: list[_Elite], dice: Dice) -> _Elite:
    """Half of the time one of the worst of all; else one of the worst of some size class, or that of which least is
    known: short rows are the worst of most kernels, and must not hide the long ones."""
    how = dice.below(4)
    if how >= 2:
        size = dice.pick(sorted({_size_class(elite.draw.n) for elite in elites}))
        elites = [elite for elite in elites if _size_class(elite.draw.n) == size]
    if how == 3:
        chosen = min(elites, key=lambda elite: elite.tried)
    else:
        ranked = sorted(elites, key=lambda elite: -elite.ratio)
        chosen = ranked[min(dice.below(4), dice.below(4), dice.below(4), len(ranked) - 1)]
    chosen.tried += 1
    return chosen


def _relative(elite: _Elite, dice: Dice) -> tuple[Draw, Taker]:
    """The elite's draw with other values and, most of the time, one or two things changed."""
    for _ in range(_TRIES):
        draw = replace(elite.draw, seed=Stream(elite.draw.seed).child(f"relative {dice.below(2**32)}").key)
        for _ in range(dice.below(3)):
            draw = dice.pick(_CHANGES)(draw, elite.taker, dice)
        if elite.taker.refusal(realise(draw)) is None:
            return draw, elite.taker
    return elite.draw, elite.taker


Change = Callable[[Draw, Taker, Dice], Draw]


def _n(draw: Draw, taker: Taker, dice: Dice) -> Draw:
    step = taker.able.multiple_of * (1 + dice.below(4))
    n = fitting_n(taker, max(1, dice.pick([draw.n // 2, draw.n // 2, draw.n - step, draw.n + step, 2 * draw.n])))
    return replace(draw, n=n, rows=max(1, min(draw.rows, LARGEST_CASE // n)))


def _rows(draw: Draw, taker: Taker, dice: Dice) -> Draw:
    """More rows: every one is another chance."""
    if draw.rank == 1:
        return draw
    most = max(1, LARGEST_CASE // max(draw.n, 1))
    return replace(draw, rows=max(1, min(dice.pick([1, 4 * draw.rows, 8 * draw.rows, 256]), most)))


def _eps(draw: Draw, taker: Taker, dice: Dice) -> Draw:
    return replace(draw, eps=dice.pick(EPS))


def _recipe(draw: Draw, taker: Taker, dice: Dice) -> Draw:
    """Another recipe for one of the inputs."""
    part = dice.pick([part for part in draw.parts if part.recipe])
    menu = MENUS[OPS[draw.op].operand(part.name).menu]
    changed = replace(part, recipe=dice.pick(menu))
    return replace(draw, parts=tuple(changed if each.name == part.name else each for each in draw.parts))


def _less(draw: Draw, taker: Taker, dice: Dice) -> Draw:
    """Without an optional input that nothing else rests on: fewer operations are allowed fewer errors."""
    op = OPS[draw.op]
    relied = {op.operand(part.name).only_with for part in draw.parts} | {part.alias for part in draw.parts}
    free = [p.name for p in draw.parts if p.recipe and op.operand(p.name).optional and p.name not in relied]
    if not free:
        return draw
    dropped = dice.pick(free)
    parts = tuple(part for part in draw.parts if part.name != dropped)
    return replace(draw, parts=parts, offset=0.0 if dropped == "weight" else draw.offset)


_CHANGES: tuple[Change, ...] = (_n, _n, _rows, _rows, _eps, _recipe, _recipe, _less)
