"""log(1 + x), without the cancellation of small x."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, chosen, two_sum, whichever
from oracles.elementary.elementwise import U, V, halves, mantissa, nearest, of_double, of_float64, scaled
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import log
from oracles.elementary.tables import STEPS, logarithms

NEAR = 0.25
"""The magnitude of x up to which no power of two is taken out of 1 + x."""
EQUAL = 2.0**-110
"""The magnitude of x below which log(1 + x) equals x within a relative V/32."""


@of_float64
def float64(x: F64) -> F64:
    """Return the logarithm of the exact sum 1 + x = s + l, see `log`: l times c is added to the low part of r. If x is
    small, c is 1 and r is x in two numbers, of which the low one may be large: it carries u, and the sums add up to 1.1
    u."""
    table = logarithms()
    inside = (x > -1) & (x < np.inf)
    total = two_sum(np.ones_like(x), np.where(inside, x, 0.0))
    m, exponent = mantissa(total.high)
    index = nearest(m * STEPS)[1] - table.start
    c = table.reciprocal[index]
    high, low = halves(m)
    r = two_sum(high * c - 1.0, low * c)
    rest = DoubleDouble(r.high, r.low + scaled(total.low, -exponent) * c)
    value = log.added(rest, index, exponent.astype(np.float64))
    return np.where(x == 0, x, np.where(inside, value, outside(x)))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return log(1 + x): for |x| <= 1/4 by r = c - 1 + x c, whose products and first sum are exact, as `log.double`:
    22.2 V. Beyond 1/4, by the logarithm of the sum 1 + x, whose 2 V are at most 9 V of the result; the logarithm adds
    24 V: 33 V."""
    near = np.abs(x.high) <= NEAR
    zero = DoubleDouble(np.zeros_like(x.high))
    value = chosen(near, _near_zero(chosen(near, x, zero)), log.double(chosen(near, zero, x) + 1.0))
    inside = (x.high > -1) | ((x.high == -1) & (x.low > 0))
    value = chosen(inside & (x.high < np.inf), value, DoubleDouble(outside(x.high)))
    return chosen(np.abs(x.high) < EQUAL, x, value)


def _near_zero(x: DoubleDouble) -> DoubleDouble:
    table = logarithms()
    index = nearest((1.0 + x.high) * STEPS)[1] - table.start
    c = table.reciprocal[index]
    high, low = halves(x.high)
    rest, least = halves(x.low)
    r = two_sum((c - 1.0) + high * c, low * c) + two_sum(rest * c, least * c)
    return log.added_double(r, index, np.zeros_like(c))


def outside(x: F64) -> F64:
    """Return log(1 + x) for x that is -1, less than -1, infinite or NaN."""
    return np.where(x == -1, -np.inf, np.where(x > 0, np.inf, np.nan))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    near = whichever(x.exponent < -ORDINARY, x, ExtendedDouble.of(double(x.doubled)))
    return whichever((x.exponent > ORDINARY) & (x.fraction.high > 0), log.extended(x), near)


FUNCTION = Elementary(
    name="log1p",
    summary="log(1 + value)",
    precise=mpmath.log1p,
    double=Certified(double, Bound(34 * V)),
    float64=Certified(float64, Bound(2.1 * U)),
    extended=extended,
    limits=(
        (-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan), (-1.0, -math.inf),
    ),
    domain=-1.0,
    singular=-1.0,
    tangent=lambda x, value, radius: log.tangent(1.0 + x, value, radius),
    farthest=None,
    sign="argument",
    parity="neither",
    reach=lambda least, high: (min(least, 0) - 1, 8),
    hard=(0.25, -0.25, 2.0**-53, -(2.0**-53), 2.0**-11, -0.29297, 0.41406, 2.0**53, 2.0**60, 2.0**-110, 2.0**-1022),
    usual=2.0,
    loose=4.0,
)  # fmt: skip
