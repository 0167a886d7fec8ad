"""The nearest whole number; half-way between two, the even one."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import DoubleDouble, chosen, two_sum, whole
from oracles.elementary.elementwise import of_double, of_float64
from oracles.elementary.function import EXACT, Bound, Certified, Elementary


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the nearest whole number, half-way the even one. The high part decides, unless it is a whole number or
    half-way between two: then the low part decides."""
    high, below = np.rint(x.high), np.floor(x.high)
    tie = np.abs(x.high - high) == 0.5
    value = chosen(high == x.high, two_sum(high, np.rint(x.low)), DoubleDouble(high))
    value = chosen(tie, DoubleDouble(np.where(x.low > 0, below + 1.0, below)), value)
    return chosen(x.low == 0, DoubleDouble(high), value)


FUNCTION = Elementary(
    name="round",
    summary="the nearest whole number, the even one of two",
    precise=mpmath.nint,
    double=Certified(double, Bound(0.0)),
    float64=Certified(of_float64(np.rint), Bound(0.0)),
    extended=whole(double),
    limits=((-math.inf, -math.inf), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=None,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (0, max(high, 0) + 1),
    hard=(0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, 2.0**52 + 0.5, 2.0**52 + 1.0, 2.0**53, 1e300),
    usual=EXACT,
    loose=EXACT,
)
