"""Precise tier: the conformance set of single elements in mpmath, and whether a value is in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
from mpmath import mpf

from oracles.dtypes import Format
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED
from oracles.rounding import round_precise

START = 160
"""The first evaluation has this many bits, twice the significand of f64 plus room; the second one has twice as many."""


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
