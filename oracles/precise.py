"""Precise tier: the conformance set of single elements in mpmath, from the quantised inputs.

Written apart from the fast tier, element by element and without its arrays, so that each checks the other. Shared are
only the numbers of the budget (`oracles.budget`) and the table of formats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import mpmath
from mpmath import mpf

from oracles.budget import Rounding, RowBudget
from oracles.dtypes import Format
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED
from oracles.rounding import round_precise

EXACT = 6600
"""With this many bits every sum of products of three float64 numbers is exact (3 * (1024 + 1074) and carries)."""

START = 160
"""The first evaluation has this many bits, twice the significand of f64 plus room; the second one has twice as many."""


_WHOLE = 2.0**53
"""Multiplication by this makes a whole number of every significand."""


@dataclass(frozen=True)
class Bounds:
    """What one element may be: a real interval before the last rounding point, and special values."""

    form: Format
    centre: mpf
    low: mpf
    high: mpf
    negative: bool | None
    """The required sign bit; the interval is then about magnitudes. None: the interval is signed, and the sign of
    zero is free."""
    nan: int = FORBIDDEN
    zero: bool = False
    saturate: bool = False
    """True: what overflows in the last rounding becomes the largest finite number."""
    nonfinite: bool = False
    """True: any NaN or infinity conforms too, because an intermediate result may overflow."""
    sign: int = 0
    """The sign that a zero must have, 1 or -1; 0 where it is free, or `negative` says it."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Special rules that apply, in words."""
        rules = {ALLOWED: ("NaN is allowed",), REQUIRED: ("NaN is required",), FORBIDDEN: ()}[self.nan]
        signs = {1: ("a zero must be +0",), -1: ("a zero must be -0",), 0: ()}[self.sign if not self.centre else 0]
        return rules + signs + (("may also be 0: the sum of squares may overflow",) if self.zero else ())

    @property
    def ends(self) -> tuple[float, float]:
        """The conformance set's ends as output values (magnitudes where the sign is known)."""
        low, high = round_precise(self.low, self.form), round_precise(self.high, self.form)
        if self.saturate:
            limit = self.form.max
            return min(max(low, -limit), limit), min(max(high, -limit), limit)
        return low, high

    @property
    def decision(self) -> tuple[object, ...]:
        """All that a verdict depends on; two precisions must agree on it."""
        return self.ends, self.negative, self.nan, self.zero, self.nonfinite, self.sign


@dataclass(frozen=True)
class Interval:
    """A magnitude: its centre and the ends that the declaration allows. Counterpart of `oracles.steps`."""

    centre: mpf
    low: mpf
    high: mpf

    def times(self, factor: mpf) -> Interval:
        """Exact product with a magnitude."""
        return Interval(self.centre * factor, self.low * factor, self.high * factor)

    def inexact(self, rounding: Rounding) -> Interval:
        """Widened by operations that round in places which the contract leaves open. Zero stays zero."""
        relative, absolute = mpf(rounding.relative), mpf(rounding.absolute) if self.high else mpf(0)
        low = max(self.low * (1 - relative) - absolute, mpf(0))
        return Interval(self.centre, low, self.high * (1 + relative) + absolute)

    def flushed(self, form: Format) -> Interval:
        """What lies below the normal range of `form` may also be zero."""
        return replace(self, low=mpf(0)) if self.low < mpmath.ldexp(1, form.emin) else self

    def point(self, form: Format) -> Interval:
        """A declared rounding point."""
        return Interval(*(mpf(round_precise(end, form)) for end in (self.centre, self.low, self.high)))


@dataclass(frozen=True)
class RowBounds:
    """Exact facts about one row and the interval of its reciprocal root, at one precision."""

    total: mpf
    """The exact sum of squares."""
    underflowing: int
    """The number of non-zero elements whose square underflows in the accumulator."""
    sum_low: mpf
    sum_high: mpf
    root: Interval
    zero: bool
    dead: bool
    nan: bool
    pole: bool


def sum_of_squares(row: Sequence[float]) -> mpf:
    """Exact sum of squares; NaN or inf where an element is."""
    if not all(map(math.isfinite, row)):
        return mpf("nan") if any(map(math.isnan, row)) else mpf("inf")
    # In integers, a tenth of what mpmath numbers of thousands of bits take.
    parts = [math.frexp(x) for x in row]
    lowest = min((exponent for _, exponent in parts), default=0)
    total = 0
    for mantissa, exponent in parts:
        whole = int(mantissa * _WHOLE)
        total += whole * whole << 2 * (exponent - lowest)
    with mpmath.workprec(EXACT):
        return mpmath.ldexp(mpf(total), 2 * (lowest - 53))


def add_exactly(a: float, b: float) -> mpf:
    """Exact sum of two floats."""
    with mpmath.workprec(EXACT):
        return mpf(a) + mpf(b)


def count_underflows(row: Sequence[float], form: Format) -> int:
    """Non-zero elements whose square lies below the smallest normal number of `form`, 2^emin."""
    assert form.emin % 2 == 0, "its root is a float"
    root = math.ldexp(1.0, form.emin // 2)
    return sum(0.0 < abs(x) < root for x in row)


def row_bounds(total: mpf, underflowing: int, budget: RowBudget) -> RowBounds:
    """Interval of the reciprocal root of one row, at the current working precision (formulas: `RowBudget`)."""
    nan, infinite = bool(mpmath.isnan(total)), bool(mpmath.isinf(total))
    if nan or infinite:
        value = mpmath.nan if nan else mpf(0)
        return RowBounds(total, 0, total, total, Interval(value, value, value), False, infinite, nan, False)
    quantum, eps, count = mpf(budget.quantum), mpf(budget.eps), mpf(budget.count)
    lost = underflowing * quantum
    sum_low = max(total - lost, mpf(0)) * (1 - mpf(budget.sum_down))
    sum_high = (total + lost) * (1 + mpf(budget.sum_up))
    mean_low = max(sum_low / count * (1 - mpf(budget.mean)) - quantum, mpf(0))
    mean_high = sum_high / count * (1 + mpf(budget.mean)) + (quantum if sum_high else 0)
    low = _root(1 - mpf(budget.root), (mean_high + eps) * (1 + mpf(budget.add)))
    high = _root(1 + mpf(budget.root), (mean_low + eps) * (1 - mpf(budget.add)))
    root = Interval(_root(mpf(1), total / count + eps), low, high)
    limit = mpmath.inf if budget.exact_range else mpmath.ldexp(*budget.form.overflow)
    must, may = bool(sum_low >= limit), bool(sum_high >= limit)
    return RowBounds(total, underflowing, sum_low, sum_high, root, may and not must, must, False, mpmath.isinf(high))


def _root(numerator: mpf, value: mpf) -> mpf:
    return numerator / mpmath.sqrt(value) if value else mpmath.inf


def conforms(bounds: Bounds, got: float) -> bool:
    """Whether `got` (exact, NaN and sign of zero included) is in the conformance set."""
    if not mpmath.isfinite(got) and bounds.nonfinite:
        return True
    low, high = bounds.ends
    if got != got:
        # Where a format has no infinity, NaN is what an overflow leaves.
        return bounds.nan != FORBIDDEN or (not bounds.form.infinities and max(abs(low), abs(high)) == mpmath.inf)
    if bounds.nan == REQUIRED:
        return False
    if bounds.negative is not None:
        if (mpmath.sign(got) < 0 or str(got).startswith("-")) != bounds.negative:
            return False
        got = abs(got)
    if not got and bounds.sign and (math.copysign(1.0, got) < 0) != (bounds.sign < 0):
        return False
    return low <= got <= high or (bounds.zero and got == 0)


def stable(evaluate: Callable[[], Bounds]) -> Bounds | None:
    """`evaluate` at `START` bits and at twice as many; None where the two do not decide alike (the oracle gives up)."""
    with mpmath.workprec(START):
        first = evaluate()
    with mpmath.workprec(2 * START):
        second = evaluate()
    return second if first.decision == second.decision or _both_nan(first, second) else None


def _both_nan(first: Bounds, second: Bounds) -> bool:
    # NaN ends compare unequal to themselves; they occur only where NaN is required.
    return first.nan == second.nan == REQUIRED
