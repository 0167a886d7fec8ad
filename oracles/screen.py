"""Screen: the cheapest certain pass, for outputs that are told from their exact values alone or nearly so.

Most outputs are right, and most contracts differ in their budgets alone. So the exact values of an output are made once
for all contracts, its distance from them once for each output, and what is left for a contract is one number for each
row and direction. A screen only ever passes: whatever it does not pass, the enclosures of the fast tier judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Protocol

import numpy as np

from oracles.budget import RowBudget
from oracles.doubledouble import F64, head
from oracles.dtypes import Format
from oracles.enclosure import Mask, Worst
from oracles.lazy import lazy
from oracles.rounding import half_gap, half_gap_of, round_to
from oracles.rows import FLOAT64, Squares
from oracles.steps import Passage

_NOTHING = 2.0**-60
"""What is smaller than this, relative to what it is added to, makes no difference to a float64 number."""
_DISTINCT = 4.0
"""A width must be larger than this many times the screen's own error, or the screen could not tell one from the
other."""


def reaches(size: float, quantum: float) -> bool:
    """Whether `quantum`, which an operation that underflows may lose, is nothing beside a number of this size."""
    return size * _NOTHING >= quantum


@dataclass(frozen=True, eq=False)
class Allowance:
    """How far the product with the reciprocal root of each row may stray, relative to its exact value, under contracts
    that differ in nothing but the budget of their sum (formulas: `RowBudget`)."""

    squares: Squares
    budget: RowBudget
    """The budget of the first of them, which the others have too, but for that of the sum."""
    sums: Sequence[tuple[float, float]]
    """How far down and up the sum may stray under each of them."""
    own: float
    """The relative error of the screen's exact values, and of these widths."""
    overflow: Mask | None = None
    """The mask (rows,) is true where the sum overflows, or is infinite or NaN: there nothing may stray, and any width
    will do."""
    passage: Passage | None = None
    """The steps that follow; None before it is known which output it is about."""

    @lazy
    def ends(self) -> Sequence[tuple[float, float]]:
        """For each contract how far up and down the mean may stray."""
        mean = self.budget.mean
        return [((1.0 + up) * (1.0 + mean) - 1.0, (1.0 - down) * (1.0 - mean) - 1.0) for down, up in self.sums]

    @lazy
    def widths(self) -> F64:
        """(2, contracts, rows) downwards and upwards."""
        return self._widths(slice(None))

    @lazy
    def first_widths(self) -> Sequence[float]:
        """(contracts,) the larger ones of the first row."""
        widest: list[float] = self._widths(slice(0, 1)).max(axis=0)[:, 0].tolist()
        return widest

    def _widths(self, rows: slice) -> F64:
        assert self.passage is not None
        budget = self.budget
        down, up = self.passage.factors(budget)
        # Of what the root is taken of, a share has the budgets of the sum and of the mean.
        share = self.squares.share(budget.count, budget.eps)[rows]
        ends = 1.0 + np.array(self.ends).T[:, :, None] * share
        ends *= np.array([1.0 + budget.add, 1.0 - budget.add])[:, None, None]
        widths: F64 = np.abs(np.array([down, up])[:, None, None] / np.sqrt(ends) - 1.0)
        return widths if self.overflow is None else np.where(self.overflow[rows], 1.0, widths)


def allowance(squares: Squares, budget: RowBudget, spread: Sequence[tuple[float, float]]) -> Allowance | None:
    """What contracts allow that differ in nothing but how far their sums may `spread`, before any steps.

    None where they do not tell what becomes of some row: its sum may or may not overflow, its root may have a pole, or
    what underflows in it counts.
    """
    if squares.arithmetic is not FLOAT64 or not squares.x.size or (squares.has_zero_row and not budget.eps):
        return None
    own = (squares.x.shape[1] + 64) * FLOAT64.ulp
    down, up = max(each for each, _ in spread), max(each for _, each in spread)
    # No width is smaller than the root's; and what may be all of a sum leaves no lower end.
    if budget.root <= _DISTINCT * own or down >= 1.0:
        return None
    # Squares and means that underflow lose at most a quantum each of what the root is taken of.
    if not reaches(squares.least / budget.count + budget.eps, 2 * budget.quantum):
        return None
    safe = budget.overflow / ((1.0 + up) * (1.0 + own))
    if squares.largest < safe:
        return Allowance(squares, budget, spread, own)
    sums, lost = head(squares.sums), budget.overflow / ((1.0 - down) * (1.0 - own))
    overflow = ~(sums < safe)
    certain = bool((~overflow | (sums > lost) | ~np.isfinite(sums)).all())
    return Allowance(squares, budget, spread, own, overflow) if certain else None


def exact_roots(squares: Squares, budget: RowBudget) -> F64:
    """(rows,) 1 / sqrt(mean + eps), within the own error of an allowance; 0 where the sum overflows, NaN where it is
    NaN."""
    sums = head(squares.sums)
    found = 1.0 / np.sqrt(sums / budget.count + budget.eps)
    return found if squares.largest < budget.overflow else np.where(sums >= budget.overflow, 0.0, found)


@dataclass(frozen=True, eq=False)
class Strays:
    """How far one output strays from the exact values beyond its own rounding, relative to them."""

    size: F64
    """The magnitudes of the output, (rows, n) or (rows,)."""
    relative: F64 | None = None
    """How far each element strays, in the shape of `size`; None where nothing strays, as in most outputs of 16 bits."""
    low: Mask | None = None
    """True where the output is smaller in magnitude than the exact value."""

    @lazy
    def sides(self) -> F64:
        """(2, rows) the largest of each row where the output is too small, and where it is too large."""
        return np.stack([each.max(axis=1) if each.ndim > 1 else each for each in map(self._of_side, (True, False))])

    def place(self, side: int, row: int) -> int:
        """Where in its row the largest of a side is."""
        return int(self._of_side(side == 0, row).argmax())

    def _of_side(self, low: bool, row: int | EllipsisType = ...) -> F64:
        assert self.relative is not None
        assert self.low is not None
        chosen: F64 = self.relative[row] * (self.low[row] == low)
        return chosen


@dataclass(frozen=True, eq=False)
class Signed:
    """Values of one output that are known beforehand: magnitudes, and the sign bits that are required."""

    values: F64
    """The magnitudes, (rows, n) or (rows,)."""
    negative: Mask

    @lazy
    def nan(self) -> Mask | None:
        """Elements that are NaN; None where none is."""
        nan = np.isnan(self.values)
        return nan if nan.any() else None

    def agrees(self, got: F64) -> bool:
        """Whether an output is NaN just where it must be, and has the required sign bits elsewhere."""
        signs = np.signbit(got) == self.negative
        if self.nan is None:
            return bool(signs.all())
        return bool((np.isnan(got) == self.nan).all() and (signs | self.nan).all())


@dataclass(frozen=True, eq=False)
class Centre(Signed):
    """Exact values of one output before its last rounding, within the own error of an allowance."""

    smallest: float
    """A lower bound of the values that are not zero, and of the products on the way to them."""
    form: Format

    @lazy
    def rounded(self) -> F64:
        """The values rounded once."""
        return round_to(self.values, self.form)

    def strays(self, got: F64) -> Strays | None:
        """Of an output of that shape; None where a sign is wrong, or a value infinitely far away."""
        if not self.agrees(got):
            return None
        size = np.abs(got)
        error = size - self.values
        low = error < 0
        strayed = np.maximum(np.abs(error) - half_gap(size, self.form, low), 0.0)
        if self.nan is not None:
            strayed[self.nan] = 0.0
        largest = strayed.max(initial=0.0)
        if largest == 0:
            return Strays(size)
        # Where zero is exact, the smallest number is infinitely far away.
        relative = np.divide(strayed, self.values, out=strayed, where=strayed > 0)
        return Strays(size, relative, low) if largest < np.inf else None


@dataclass(frozen=True, eq=False)
class Compared:
    """One output beside what several contracts allow."""

    inside: Sequence[bool]
    """Each entry, (contracts,), says of one contract whether every element certainly conforms."""
    at: Sequence[int]
    """Each entry, (contracts,), says for one contract where the largest ratio is: side * rows + row."""
    ratio: Sequence[float]


def compared(strays: Strays, allowance: Allowance) -> Compared:
    """For an output that strays."""
    sides, widths = strays.sides[:, None, :], allowance.widths
    inside: Mask = np.logical_and.reduce(sides <= widths - 2 * allowance.own, axis=(0, 2))
    ratios = (sides / widths).swapaxes(0, 1).reshape(len(inside), -1)
    return Compared(inside.tolist(), ratios.argmax(axis=1).tolist(), ratios.max(axis=1).tolist())


class Received:
    """The outputs of one kernel, and what is the same of them for several contracts. Made by `Truth.receive`."""

    def __init__(self, values: Mapping[str, F64]) -> None:
        self.values = values
        """The outputs are float64, in canonical shape."""
        self._strays: dict[tuple[str, Centre], Strays | None] = {}
        self._compared: dict[tuple[str, Allowance], Compared] = {}

    def strays(self, output: str, centre: Centre) -> Strays | None:
        """How far an output strays from a centre of its problem."""
        key = output, centre
        if key not in self._strays:
            self._strays[key] = centre.strays(self.values[output])
        return self._strays[key]

    def compared(self, output: str, strays: Strays, allowance: Allowance) -> Compared:
        """How far it strays beside what is allowed."""
        key = output, allowance
        if key not in self._compared:
            self._compared[key] = compared(strays, allowance)
        return self._compared[key]


class Screen(Protocol):
    """Of one output under several contracts."""

    def worst(self, output: str, received: Received, contract: int) -> Worst | None:
        """The worst element of the output called so, where every one certainly conforms; None decides nothing."""


Screens = tuple[int, Mapping[str, Screen]]
"""The screens of one contract: its place among those that they were made for, and the screens by output."""


@dataclass(frozen=True, eq=False)
class Rounded(Signed):
    """The right values of one output, rounded as declared: what equals them conforms, and others may."""

    @property
    def way(self) -> object:
        """Equal for all that are given."""
        return Rounded

    def worst(self, output: str, received: Received, contract: int) -> Worst | None:
        """See `Screen`. Between values so far apart a distance says nothing."""
        got = received.values[output]
        if not self.agrees(got):
            return None
        equal = np.abs(got) == self.values
        return Worst(0, 0.0, blunt=True) if (equal if self.nan is None else equal | self.nan).all() else None


@dataclass(frozen=True, eq=False)
class Near:
    """An output whose value before its only rounding may be anywhere in an interval around the exact one."""

    centre: Centre
    allowance: Allowance

    def worst(self, output: str, received: Received, contract: int) -> Worst | None:
        """See `Screen`.

        The cell of values that round to what was got then overlaps the interval by more than the screen's own error:
        also where nothing strays, as the exact value is in the cell or on its edge.
        """
        strays = received.strays(output, self.centre)
        if strays is None:
            return None
        if strays.relative is None:
            return self._worst(strays, 0, 0.0, self.allowance.first_widths[contract])
        compared = received.compared(output, strays, self.allowance)
        if not compared.inside[contract]:
            return None
        widths = self.allowance.widths[:, contract]
        side, row = divmod(compared.at[contract], widths.shape[1])
        flat = row * (strays.size.size // widths.shape[1]) + strays.place(side, row)
        return self._worst(strays, flat, compared.ratio[contract], float(widths[:, row].max()))

    def _worst(self, strays: Strays, flat: int, ratio: float, width: float) -> Worst:
        size, allowed = float(strays.size.flat[flat]), width * float(self.centre.values.flat[flat])
        return Worst(flat, ratio, not half_gap_of(size, self.centre.form) < allowed)
