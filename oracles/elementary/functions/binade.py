"""The largest power of two that is not larger in magnitude than x, with the sign of x."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble
from oracles.elementary.elementwise import TINY, of_double, of_float64
from oracles.elementary.function import EXACT, Bound, Certified, Elementary


@of_float64
def float64(x: F64) -> F64:
    """Return the number with all mantissa bits set to zero. Subnormal numbers are scaled to normal ones first."""
    small = np.abs(x) < TINY
    normal = np.where(small, x * 2.0**54, x)
    power = (normal.view(np.int64) & -(1 << 52)).view(np.float64)
    return np.where(np.isnan(x), x, np.where(small, power * 2.0**-54, power))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the value of the high part, or half of it if the high part is a power of two that the low part reduces."""
    high = float64(x.high)
    falls = (high == x.high) & (np.sign(x.low) == -np.sign(high))
    return DoubleDouble(np.where(falls, high / 2, high))


def precise(value: mpf) -> mpf:
    fraction, exponent = mpmath.frexp(value)
    return mpmath.ldexp(mpmath.sign(fraction), exponent - 1)


FUNCTION = Elementary(
    name="binade",
    summary="the largest power of two that is no further from zero, with the sign of value",
    precise=precise,
    double=Certified(double, Bound(0.0)),
    float64=Certified(float64, Bound(0.0)),
    extended=lambda x: ExtendedDouble.of(double(x.fraction), x.exponent),
    limits=((-math.inf, -math.inf), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=None,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (least, high),
    hard=(1.0, -1.0, 1.9999999999999998, 2.0, 448.0, 2.0**-1022, 2.0**-1074, -3.0 * 2.0**-1074, 2.0**1023, 1e300),
    usual=EXACT,
    loose=EXACT,
    degree=1.0,
)
