"""|x|."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble
from oracles.elementary.elementwise import of_double, of_float64, signed
from oracles.elementary.function import EXACT, Bound, Certified, Elementary


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return each number times its own sign."""
    return signed(x, x)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: on the other side of zero the tangent is off by twice the distance to zero."""
    return np.sign(x), 2 * np.maximum(radius - np.abs(x), 0.0)


def farthest(low: F64, high: F64, value: F64) -> F64:
    """Return the largest distance of |x| from a value, for x from `low` to `high`; if these differ in sign, the least
    |x| is 0."""
    ends = np.abs(low), np.abs(high)
    least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(*ends))
    return np.maximum(np.maximum(*ends) - value, value - least)


FUNCTION = Elementary(
    name="abs",
    summary="|value|",
    precise=lambda x: x if x >= 0 else mpmath.fneg(x, exact=True),
    double=Certified(double, Bound(0.0)),
    float64=Certified(of_float64(np.abs), Bound(0.0)),
    extended=lambda x: ExtendedDouble(double(x.fraction), x.exponent),
    limits=((-math.inf, math.inf), (-0.0, 0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=farthest,
    sign="positive",
    parity="even",
    reach=lambda least, high: (least, high),
    hard=(1.0, 2.0**-1074, 2.0**1023),
    usual=EXACT,
    loose=EXACT,
    degree=1.0,
)
