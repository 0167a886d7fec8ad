"""Fast tier: sums of squares and reciprocal roots of all rows, with a rigorous bound on its own error.

A quantity is a stack of five arrays: its centre (the declaration without inexact steps) and the two ends of the
interval that the declaration allows, each end once on the far and once on the near side of the fast tier's own error.
Between the two versions of an end only the precise tier can tell. The arithmetic is float64, or double-double for
float64 rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from oracles import doubledouble
from oracles.budget import RowBudget
from oracles.doubledouble import F64, DoubleDouble, Real, exponents, head, not_negative, root, shifted, two_product
from oracles.enclosure import Mask, any_of
from oracles.lazy import lazy
from oracles.ragged import Ragged, joined

CENTRE, LOW_OUTER, LOW_INNER, HIGH_INNER, HIGH_OUTER = range(5)

SIDE = np.array([[0.0], [-1.0], [-1.0], [1.0], [1.0]])
"""The signs say which way a budget moves each array of a stack."""

OWN = np.array([[0.0], [-1.0], [1.0], [-1.0], [1.0]])
"""The signs say which way the fast tier's own error moves each array of a stack."""

_LEAST = -500
"""The smallest exponent by which rows are scaled: what underflow adds to a sum then stays far below 1."""
_FAINT = 2.0**-800
"""The smallest scaled mean whose relative error is that of the arithmetic: what underflows is below n 2^-1070."""
_LARGEST = 900
"""The largest exponent of a row whose root has both its parts in the normal range."""

FALLING = [CENTRE, HIGH_OUTER, HIGH_INNER, LOW_INNER, LOW_OUTER]
"""The order of a stack after a decreasing function."""


@dataclass(frozen=True)
class Arithmetic:
    """What the fast tier calculates in."""

    ulp: float
    """The relative error bound of one operation."""
    lift: Callable[[F64], Real]
    """This makes an operand of an array, so that what follows is done in this arithmetic."""

    @lru_cache(maxsize=4096)  # noqa: B019 (there are two instances, both live as long as the module)
    def own(self, operations: float) -> Real:
        """(5, 1) factors that move a stack by the error of so many operations."""
        return 1.0 + self.lift(OWN * (operations * self.ulp))

    @lru_cache(maxsize=4096)  # noqa: B019
    def factor(self, down: float, up: float) -> Real:
        """(5, 1) factors that widen a stack by a relative budget."""
        return 1.0 + self.lift(np.array([[0.0], [-down], [-down], [up], [up]]))


FLOAT64 = Arithmetic(2.0**-53, lambda array: array)
DOUBLE_DOUBLE = Arithmetic(doubledouble.ULP, DoubleDouble)


@dataclass(frozen=True)
class Roots:
    """Reciprocal roots of all rows, and what is special about some of them; the masks have shape (rows,)."""

    stack: Real
    """The reciprocal roots, (5, rows)."""
    zero: Mask | None = None
    """True where the sum may overflow, so that rstd may also be 0."""
    dead: Mask | None = None
    """True where rstd is certainly 0: the sum must overflow, or an input is infinite."""
    nan: Mask | None = None
    """True where the row holds a NaN."""
    pole: Mask | None = None
    """True where rstd may be infinite: eps is 0 and the mean of squares may be."""
    unsure: Mask | None = None
    """True where the fast tier cannot tell which of these holds."""


@dataclass(frozen=True)
class Squares:
    """Rows (rows, n) of finite or non-finite float64 numbers, and their sums of squares."""

    x: F64
    arithmetic: Arithmetic
    _shares: dict[tuple[float, float], F64] = field(default_factory=dict, repr=False, compare=False)

    @lazy
    def sums(self) -> Real:
        """(rows,) sums of squares over 4^exponents, within `error` relative; NaN or inf where an input is."""
        if self.arithmetic is DOUBLE_DOUBLE:
            scaled = np.ldexp(self.x, -self.exponents[:, None])
            return two_product(scaled, scaled).sum(1)
        sums: F64 = np.einsum("ij,ij->i", self.x, self.x)
        return sums

    @lazy
    def exponents(self) -> NDArray[np.int64]:
        """(rows,) that of the largest magnitude, see `doubledouble.exponents`; 0 in float64 arithmetic."""
        return exponents(self.x, 1) if self.arithmetic is DOUBLE_DOUBLE else np.zeros(len(self.x), np.int64)

    def scale(self, eps: float) -> NDArray[np.int64]:
        """(rows,) k such that the mean of squares plus eps, over 4^k, is about 1, as far as k >= `_LEAST`; 0 in float64
        arithmetic."""
        if self.arithmetic is FLOAT64:
            return self.exponents
        return np.maximum(self.exponents, max(_LEAST, math.frexp(eps)[1] // 2 + 1 if eps else _LEAST))

    @lazy
    def least(self) -> float:
        """Smallest sum of a row that is not zero, or inf; in float64 arithmetic."""
        sums = head(self.sums)
        return float(np.min(sums, where=sums > 0, initial=np.inf))

    @lazy
    def largest(self) -> float:
        """Largest sum, in float64 arithmetic; NaN where one is."""
        return float(np.max(head(self.sums), initial=0.0))

    @lazy
    def has_zero_row(self) -> bool:
        """Whether the squares of some row add up to nothing."""
        return not bool(head(self.sums).all())

    def share(self, count: float, eps: float) -> F64:
        """(rows,) of what the root is taken of, mean + eps, the part that is the mean; in float64 arithmetic."""
        key = count, eps
        if key not in self._shares:
            mean = head(self.sums) / count
            self._shares[key] = mean / (mean + eps)
        return self._shares[key]

    @property
    def error(self) -> float:
        """Relative error of `sums` in ulp: n additions in any order of non-negative terms (Higham 2002, 3.1)."""
        return float(self.x.shape[1]) + 4.0

    @lazy
    def magnitudes(self) -> F64:
        """(rows, n) |x|."""
        magnitudes: F64 = np.abs(self.x)
        return magnitudes

    @lazy
    def smallest(self) -> float:
        """Smallest non-zero magnitude, or inf."""
        smallest: float = np.min(self.magnitudes, where=self.magnitudes > 0, initial=np.inf).item()
        return smallest

    @lazy
    def unsafe(self) -> Mask | None:
        """(rows,) where double-double arithmetic on single elements could underflow or overflow; None where nowhere."""
        if self.arithmetic is FLOAT64:
            return None
        low, high = doubledouble.SAFE
        outside = (self.magnitudes > high) | ((self.magnitudes < low) & (self.magnitudes > 0))
        return any_of(outside) if outside.any() else None

    def underflows(self, tiny: float) -> F64 | float:
        """(rows,) number of non-zero elements whose square lies below `tiny`; 0.0 where no row has any."""
        if self.smallest * self.smallest >= tiny:
            return 0.0
        counted = (self.x * self.x < tiny) & (self.x != 0)
        return np.asarray(np.count_nonzero(counted, axis=1), dtype=np.float64)


def prepare(some: Sequence[Squares]) -> None:
    """Let each know, in float64 arithmetic, what it would find by itself, found for all of them in one pass; none may
    be empty."""
    if not some:
        return
    rows, elements = Ragged.of(len(each.x) for each in some), Ragged.of(each.x.size for each in some)
    sums = joined([head(each.sums) for each in some])
    least, largest = rows.smallest(sums).tolist(), rows.largest(sums).tolist()
    smallest = elements.smallest(np.abs(joined([each.x for each in some]))).tolist()
    has_zero_row = (~rows.every(sums != 0)).tolist()
    for squares, *found in zip(some, least, largest, smallest, has_zero_row, strict=True):
        vars(squares).update(zip(("least", "largest", "smallest", "has_zero_row"), found, strict=True))


def roots(squares: Squares, budget: RowBudget, *, scaled: bool = False) -> Roots:
    """Interval of the reciprocal root of every row under `budget` (formulas: `RowBudget`).

    Each group of steps gets one factor for the fast tier's own error: every step is correct to within one ulp, and
    monotone evaluation carries the errors of earlier steps along. In double-double arithmetic all of it is about
    numbers over 4^scale, so that what underflows is nothing beside their sum, which is about 1.

    `scaled`: what follows scales the elements too (`oracles.scaling`), so that these may have any size.
    """
    own, factor, scale = squares.arithmetic.own, squares.arithmetic.factor, squares.scale(budget.eps)
    quantum, eps = np.ldexp(budget.quantum, -2 * scale), np.ldexp(budget.eps, -2 * scale)
    lost = quantum * squares.underflows(budget.form.tiny) if budget.quantum else 0.0
    sums = shifted(squares.sums, 2 * (squares.exponents - scale)) * own(squares.error)
    if np.any(lost):
        sums = not_negative(sums + SIDE * lost)
    sums = sums * factor(budget.sum_down, budget.sum_up)
    means = sums * (factor(budget.mean, budget.mean) * own(8) / budget.count)
    live = head(squares.sums) > 0
    means = not_negative(means + SIDE * (live * quantum))
    values = (means + eps) * factor(budget.add, budget.add)
    stack = shifted(factor(budget.root, budget.root) * own(16) / root(values)[FALLING], -scale)
    mantissa, exponent = budget.form.overflow
    limit = np.full(len(scale), np.inf) if budget.exact_range else np.ldexp(float(mantissa), exponent - 2 * scale)
    unsafe = None if scaled else squares.unsafe
    if squares.arithmetic is DOUBLE_DOUBLE:
        faint = live & ((head(values)[CENTRE] < _FAINT) | (scale > _LARGEST))
        unsafe = (faint if unsafe is None else faint | unsafe) if faint.any() else unsafe
    usual = bool((head(stack[HIGH_OUTER]) < np.inf).all() and (head(sums[HIGH_OUTER]) < limit).all())
    if usual and unsafe is None:
        return Roots(stack)
    return _special(stack, squares, head(sums), limit, unsafe)


def _special(stack: Real, squares: Squares, sums: F64, limit: F64, unsafe: Mask | None) -> Roots:
    """Sort out rows with NaN, inf, sums that reach the overflow `limit`, and means that may be zero."""
    nan = any_of(np.isnan(squares.x))
    infinite = ~nan & any_of(np.isinf(squares.x))
    finite = ~(nan | infinite)
    sums = np.where(np.isnan(sums) & ~nan, np.inf, sums)  # double-double arithmetic makes NaN of what overflows
    may, must = sums[HIGH_OUTER] >= limit, sums[LOW_OUTER] >= limit
    pole = np.isinf(head(stack[HIGH_OUTER]))
    unsure = (
        (may != (sums[HIGH_INNER] >= limit))
        | (must != (sums[LOW_INNER] >= limit))
        | (pole != np.isinf(head(stack[HIGH_INNER])))
    )
    if unsafe is not None:
        unsure |= unsafe
    dead = infinite | (finite & must)
    return Roots(stack, zero=finite & may & ~must, dead=dead, nan=nan, pole=finite & pole, unsure=finite & unsure)
