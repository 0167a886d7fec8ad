"""e^x - 1, without the cancellation of small x."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, chosen, two_sum, whichever
from oracles.elementary.elementwise import U, V, of_double, of_float64, polynomial, power, scaled
from oracles.elementary.function import Bound, Certified, Elementary, of_growth
from oracles.elementary.functions import exp
from oracles.elementary.tables import powers

FAR = 40.0
"""The magnitude of x beyond which the smaller of e^x and 1 is less than 0.04 u of the larger."""
FAR_DOUBLE = 120.0
"""The magnitude of x beyond which the smaller of e^x and 1 is less than 2^-66 V of the larger."""
EQUAL = 2.0**-110
"""The magnitude of x below which e^x - 1 equals x within a relative V/32."""


@of_float64
def float64(x: F64) -> F64:
    """Return e^x - 1 by `less_one`, within 1.01 u. Below -40 the result is that for -40; beyond 40 it is e^x."""
    value = np.where(x < FAR, less_one(np.clip(x, -FAR, FAR)), exp.float64(x))
    return np.where(x == 0, x, value)


def less_one(x: F64) -> F64:
    """Return e^x - 1 for |x| <= 40, within 1.01 u, without the sign of a zero. With A = 2^m T - 1 it is A + q + A q. A
    + r is calculated without error; all other terms, with the roundings of r and A, are together at most 2^-10 of the
    result and carry at most 8 u."""
    table = powers()
    exponent, index, r, r_low = exp.steps(x)
    scale = scaled(np.ones_like(x), exponent)
    a = two_sum(scale * table.value.high[index], np.full_like(x, -1.0))
    p = r * r * polynomial(r, LONGER)
    a_low = a.low + scale * table.value.low[index]
    whole = two_sum(a.high, r)
    return whole.high + (whole.low + ((r_low + p + (a.high + a_low) * (r + p)) + a_low))


LONGER = [1 / math.factorial(k) for k in range(2, 6)]
"""Taylor coefficients, one more than in `exp`, so that the remainder is small beside r."""


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return 2^m a + (2^m - 1) from `exp.parts`. For m = 0 this is a, which is off by 20 V. For m = 1 the result is at
    least 0.4, a adds 3.1 V of at most 0.6, and the sum adds 3 V: 8 V. For other m these terms are smaller."""
    near = np.abs(x.high) < FAR_DOUBLE
    value = less_one_double(chosen(near, x, DoubleDouble(np.zeros_like(x.high))))
    far = chosen(x.high > 0, exp.double(x), DoubleDouble(np.full_like(x.high, -1.0)))
    value = chosen(near, value, far)
    return chosen((np.abs(x.high) < EQUAL) | np.isnan(x.high), x, value)


def less_one_double(x: DoubleDouble) -> DoubleDouble:
    """Return e^x - 1 for |x| < 120, within 20 V. Below -0.3, where its magnitude is at least 0.29, it is within 6 V."""
    exponent, a = exp.parts(x)
    scale = power(exponent)
    return DoubleDouble(scale * a.high, scale * a.low) + two_sum(scale, np.full_like(scale, -1.0))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    value = x.doubled
    near = whichever(x.exponent < -ORDINARY, x, ExtendedDouble.of(double(value)))
    return whichever(value.high > FAR_DOUBLE, exp.extended(x), near)


FUNCTION = Elementary(
    name="expm1",
    summary="e^value - 1",
    precise=lambda x: mpmath.expm1(x) if abs(x) < 1 else exp.precise(x) - 1,
    double=Certified(double, Bound(24 * V, 2.0**-1073)),
    float64=Certified(float64, Bound(1.06 * U)),
    extended=extended,
    limits=((-math.inf, -1.0), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=lambda x, value, radius: (np.exp(x), of_growth(np.exp(x), radius)),
    farthest=None,
    sign="argument",
    parity="neither",
    reach=lambda least, high: (min(least, 0) - 1, exp.reach(least, high)[1]),
    hard=(0.3466, -0.3466, 40.0, -40.0, 120.0, -120.0, 2.0**-54, 2.0**-110, 709.78),
    usual=2.0,
    loose=4.0,
)
