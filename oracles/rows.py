"""Fast tier: sums of squares and reciprocal roots of all rows in float64, with a rigorous bound on its own error.

A quantity is a stack of five arrays: its centre (the declaration without inexact steps) and the two ends of the interval
that the declaration allows, each end once on the far and once on the near side of the fast tier's own error. Between
the two versions of an end only the precise tier can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oracles.budget import RowBudget
from oracles.enclosure import Mask
from oracles.rounding import F64

ULP = 2.0**-53
"""unit roundoff of the fast tier's own arithmetic."""

CENTRE, LOW_OUTER, LOW_INNER, HIGH_INNER, HIGH_OUTER = range(5)

SIDE = np.array([[0.0], [-1.0], [-1.0], [1.0], [1.0]])
"""which way a budget moves each array of a stack."""

OWN = np.array([[0.0], [-1.0], [1.0], [-1.0], [1.0]])
"""which way the fast tier's own error moves each array of a stack."""

FALLING = [CENTRE, HIGH_OUTER, HIGH_INNER, LOW_INNER, LOW_OUTER]
"""order of a stack after a decreasing function."""


@dataclass(frozen=True)
class Roots:
    """Reciprocal roots of all rows, and what is special about some of them; the masks have shape (rows,)."""

    stack: F64
    """(5, rows)."""
    zero: Mask | None = None
    """the sum may overflow, so that rstd may also be 0."""
    dead: Mask | None = None
    """rstd is certainly 0: the sum must overflow, or an input is infinite."""
    nan: Mask | None = None
    """the row holds a NaN."""
    pole: Mask | None = None
    """rstd may be infinite: eps is 0 and the mean of squares may be."""
    unsure: Mask | None = None
    """float64 cannot tell which of these holds."""


@dataclass(frozen=True)
class Squares:
    """Rows and their sums of squares. `x` is (rows, n) in float64, from a dtype whose squares float64 holds exactly."""

    x: F64

    @cached_property
    def sums(self) -> F64:
        """(rows,) sums of squares, within `error` relative; NaN where an input is NaN, else inf where one is inf."""
        sums: F64 = np.einsum("ij,ij->i", self.x, self.x)
        return sums

    @property
    def error(self) -> float:
        """Relative error of `sums`: n additions in any order of exact, non-negative products (Higham 2002, 3.1)."""
        return (self.x.shape[1] + 2) * ULP

    @cached_property
    def magnitudes(self) -> F64:
        """(rows, n) |x|."""
        magnitudes: F64 = np.abs(self.x)
        return magnitudes

    @cached_property
    def smallest(self) -> float:
        """Smallest non-zero magnitude, or inf."""
        return float(np.fmin.reduce(self.magnitudes[self.magnitudes > 0], initial=np.inf))

    def underflows(self, tiny: float) -> F64 | float:
        """(rows,) number of non-zero elements whose square lies below `tiny`; 0.0 where no row has any."""
        if self.smallest**2 >= tiny:
            return 0.0
        counted = (self.x * self.x < tiny) & (self.x != 0)
        return np.count_nonzero(counted, axis=1).astype(np.float64)


def roots(squares: Squares, budget: RowBudget, exact_range: bool) -> Roots:
    """Interval of the reciprocal root of every row under `budget` (formulas: `RowBudget`).

    Each group of float64 steps gets one factor 1 +- a few ULP in the direction of `OWN`: every step rounds correctly,
    and monotone evaluation carries the errors of earlier steps along. `exact_range`: the sum may neither overflow nor
    underflow.
    """
    form = budget.form
    half_eta = 0.0 if exact_range else form.half_eta
    lost = half_eta * squares.underflows(form.tiny) if half_eta else 0.0
    sums = squares.sums * (1 + OWN * (squares.error + 2 * ULP))
    if np.any(lost):
        sums = np.maximum(sums + SIDE * lost, 0.0)
    sums = sums * _factor(budget.sum_down, budget.sum_up)
    means = sums * (_factor(budget.mean, budget.mean) * (1 + OWN * (8 * ULP)) / budget.count)
    means = np.maximum(means + np.where(sums > 0, SIDE * half_eta, 0.0), 0.0)
    values = (means + budget.eps) * _factor(budget.add, budget.add)
    stack = (_factor(budget.root, budget.root) * (1 + OWN * (16 * ULP))) / np.sqrt(values)[FALLING]
    mantissa, exponent = form.overflow
    limit = np.inf if exact_range or form.name == "f64" else mantissa * 2.0**exponent
    if stack[HIGH_OUTER].max(initial=0.0) < np.inf and sums[HIGH_OUTER].max(initial=0.0) < limit:
        return Roots(stack)
    return _special(stack, squares.sums, sums, limit)


def _factor(down: float, up: float) -> F64:
    return np.array([[1.0], [1 - down], [1 - down], [1 + up], [1 + up]])


def _special(stack: F64, exact: F64, sums: F64, limit: float) -> Roots:
    """Sort out rows with NaN, inf, sums that reach the overflow `limit`, and means that may be zero."""
    nan = np.isnan(exact)
    infinite = np.isinf(exact)
    may, must = sums[HIGH_OUTER] >= limit, sums[LOW_OUTER] >= limit
    pole = np.isinf(stack[HIGH_OUTER])
    finite = ~(nan | infinite)
    unsure = finite & (
        (may != (sums[HIGH_INNER] >= limit))
        | (must != (sums[LOW_INNER] >= limit))
        | (pole != np.isinf(stack[HIGH_INNER]))
    )
    dead = infinite | (finite & must)
    return Roots(stack, zero=finite & may & ~must, dead=dead, nan=nan, pole=finite & pole, unsure=unsure)
