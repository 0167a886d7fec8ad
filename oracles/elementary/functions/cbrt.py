"""Cube root."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import DoubleDouble, ExtendedDouble, absolute, chosen, two_product, two_sum
from oracles.elementary.elementwise import U, V, mantissa, of_double, rounded, scaled_double, signed, tangent_of
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import exp2, log2


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return one step of Newton's from y = 2^(log2 m / 3) in float64, for |x| = m 2^(3k), 0.7 < m < 5.7.

    y is off by 4.5 u: 4.2 u and a rounding of a logarithm below 2.6, over 3 and times log 2, and 1.01 u of the power.
    The step leaves the square of that, 20 V; its correction is off by 3 u of 4.5 u, and by a third of the 3 V that the
    cube is off by: 35 V."""
    inside = (x.high != 0) & np.isfinite(x.high)
    size = absolute(chosen(inside, x, DoubleDouble(np.ones_like(x.high))))
    third = mantissa(size.high)[1] // 3
    m = scaled_double(size, -3 * third)
    y = exp2.float64(log2.float64(m.high) / 3.0)
    square = two_product(y, y)
    root = two_sum(y, (m - square * y).high / (3.0 * square.high))
    return chosen(inside, scaled_double(signed(root, x), third), x)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    third = x.exponent // 3
    return ExtendedDouble.of(double(x.in_units_of(3 * third)), third)


def precise(x: mpf) -> mpf:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


FUNCTION = Elementary(
    name="cbrt",
    summary="cube root, of negative numbers too",
    precise=precise,
    double=Certified(double, Bound(36 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=extended,
    limits=((-math.inf, -math.inf), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=0.0,
    tangent=tangent_of(1 / 3),
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (least // 3, -(-high // 3)),
    hard=(1.0, 8.0, 0.7071, 5.656, 2.0**-1022, 2.0**-1074, 2.0**1023),
    usual=1.0,
    loose=4.0,
    elasticity=lambda value: value / 3.0,
)
