"""Fast tier: steps that take a stack of magnitudes (see `oracles.rows`) from one declared operation to the next.

Their counterparts in the precise tier are the methods of `oracles.precise.Interval`.
"""

from __future__ import annotations

import numpy as np

from oracles.budget import Rounding
from oracles.doubledouble import F64, Real, head, not_negative
from oracles.dtypes import Format
from oracles.rounding import round_to
from oracles.rows import LOW_INNER, LOW_OUTER, SIDE, Arithmetic

Live = F64 | float
"""The value is 1.0 where a magnitude is not zero; zero times anything stays exactly zero."""


def inexact(stack: Real, rounding: Rounding, arithmetic: Arithmetic, live: Live) -> Real:
    """Widen a stack (5, rows, columns) by operations that round in places which the contract leaves open."""
    widened = stack * arithmetic.factor(rounding.relative, rounding.relative)[:, :, None]
    return not_negative(widened + (SIDE * rounding.absolute)[:, :, None] * live)


def flushed(stack: Real, form: Format) -> Real:
    """Let results below the normal range of `form` also be zero."""
    small = head(stack)[LOW_OUTER : LOW_INNER + 1] < form.tiny
    if not small.any():
        return stack
    keep = np.ones(stack.shape)
    keep[LOW_OUTER : LOW_INNER + 1] = ~small
    return stack * keep


def point(stack: Real, form: Format, arithmetic: Arithmetic) -> Real:
    """A declared rounding point: everything is rounded to nearest even in `form`."""
    return arithmetic.lift(round_to(stack, form))
