"""-1, 0 or 1."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble
from oracles.elementary.elementwise import of_double, of_float64
from oracles.elementary.function import EXACT, Bound, Certified, Elementary


@of_float64
def float64(x: F64) -> F64:
    """Return the sign; it is +0 for zeros of either sign, as comparisons make it."""
    return np.where(x == 0, 0.0, np.sign(x))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the sign of the high part, which the low part never changes."""
    return DoubleDouble(float64(x.high))


FUNCTION = Elementary(
    name="sign",
    summary="-1, 0 or 1: the sign of value",
    precise=mpmath.sign,
    double=Certified(double, Bound(0.0)),
    float64=Certified(float64, Bound(0.0)),
    extended=lambda x: ExtendedDouble.of(double(x.fraction)),
    # NumPy returns NaN for NaN, torch 0.
    limits=((-math.inf, -1.0), (-0.0, 0.0), (0.0, 0.0), (math.inf, 1.0), (math.nan, None)),
    domain=-math.inf,
    singular=None,
    tangent=None,
    farthest=None,
    sign="any",
    parity="odd",
    reach=lambda least, high: (0, 1),
    hard=(1.0, -1.0, 2.0**-1074, -(2.0**-1074), 2.0**1023),
    usual=EXACT,
    loose=EXACT,
    degree=0.0,
)
