"""The largest whole number that is not larger than x."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import DoubleDouble, chosen, two_sum, whole
from oracles.elementary.elementwise import of_double, of_float64
from oracles.elementary.function import EXACT, Bound, Certified, Elementary


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the floor of the high part; if the high part is a whole number, add the floor of the low part."""
    high = np.floor(x.high)
    return chosen((high != x.high) | (x.low == 0), DoubleDouble(high), two_sum(high, np.floor(x.low)))


FUNCTION = Elementary(
    name="floor",
    summary="the largest whole number that is not more than value",
    precise=mpmath.floor,
    double=Certified(double, Bound(0.0)),
    float64=Certified(of_float64(np.floor), Bound(0.0)),
    extended=whole(double),
    limits=((-math.inf, -math.inf), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=None,
    farthest=None,
    sign="argument",
    parity="neither",
    reach=lambda least, high: (0, max(high, 0) + 1),
    hard=(1.0, -1.0, 0.5, -0.5, 2.0**52 + 0.5, 2.0**53, -(2.0**-1074), 1e300),
    usual=EXACT,
    loose=EXACT,
)
