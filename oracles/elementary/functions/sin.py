"""Sine, and the turned sine that cosine is."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, chosen, plus, two_sum
from oracles.elementary import Bound
from oracles.elementary.bits import nearest, polynomial
from oracles.elementary.elementwise import U, V, of_double, of_float64
from oracles.elementary.function import LEAST_BINADE, Certified, Elementary
from oracles.elementary.quadrants import DOUBLE, SINGLE, reduced
from oracles.elementary.tables import ANGLES, ratio, turns
from oracles.extendeddouble import proportional

EQUAL = 2.0**-55
"""Below it sin x is x, within V/32."""

WORST = 6381956970095103 * 2.0**797
"""The float64 number nearest to a multiple of a quarter turn: 2^-60.9 beside it."""

HARD = (2.0**20, 2.0**-27, 2.0**-55, 0.7853981633974483, WORST, 2.0**1023)

FLOAT64_BOUND = Bound(1.7 * U)
DOUBLE_BOUND = Bound(24 * V, 2.0**-182)
"""The bounds of sine and cosine alike."""


@of_float64
def float64(x: F64) -> F64:
    """The sine of `x` radians, for every finite x; NaN of an infinite one. See `turned`."""
    return turned(x, 0)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """The sine of `x` radians, for every finite x; NaN of an infinite one. See `turned_double`."""
    return chosen(np.abs(x.high) < EQUAL, x, turned_double(x, 0))


def turned(x: F64, quarter: int) -> F64:
    """sin(x + quarter pi/2), by the Taylor polynomials of sine and cosine of what `quadrants` leaves, r within pi/4.

    Sine: beside r stands at most 0.115 of the result, off by 4.1 u; its sum with the low part of r adds 0.12 u, what
    that part lacks of its cosine and the remainder 0.02 u, the last sum u: 1.65 u with the reduction's 0.02 u. Cosine:
    1 - r^2/2 is kept without error but for r^2, 0.36 u of the result; the other terms are 0.03 of it and off by 4 u,
    the low part of r lacks 0.06 u of its sine, the last sum adds u: 1.6 u."""
    finite = np.isfinite(x)
    quarters, rest = reduced([np.where(finite, x, 0.0)], SINGLE)
    r, low = rest.high, rest.low
    quarters += quarter
    square = r * r
    half = 0.5 * square
    near = 1.0 - half
    sine = r + (low * near + r * (square * polynomial(square, SINE)))
    cosine = near + (((1.0 - near) - half) + (square * (square * polynomial(square, COSINE)) - r * low))
    size = np.where(quarters & 1, cosine, sine)
    result = np.where(quarters & 2, -size, size)
    if quarter == 0:
        result = np.where(np.abs(x) < 2.0**-27, x, result)
    return np.where(finite, result, np.nan)


SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
"""Taylor coefficients of (sin r - r) / r^3, in r^2."""

COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(2, 10)]
"""Taylor coefficients of (cos r - 1 + r^2/2) / r^4, in r^2."""


def turned_double(x: DoubleDouble, quarter: int) -> DoubleDouble:
    """sin(x + quarter pi/2) = sin c cos h + cos c sin h for what `quadrants` leaves, c + h, c = j/128 and |h| <= 2^-8.

    Unlike float64 numbers, double-double ones come as near to a multiple of a quarter turn as they please: the
    reduction adds 2^-182, absolutely. Taylor polynomials: remainders h^13/13! < 2^-128 h and h^12/12! < 2^-124. c + h
    carries 2 V, sin h 3.1 V, cos c sin h 8.7 V, which is at most 1.01 times the result; sin c, twice it at most, 0.5 V;
    sin c (cos h - 1) 0.3 V in all; the inner sum adds 3.1 V and the last one 7 V, for j = 1: 22.5 V."""
    finite = np.isfinite(x.high)
    quarters, rest = reduced([np.where(finite, x.high, 0.0), np.where(finite, x.low, 0.0)], DOUBLE)
    quarters += quarter
    table = turns()
    centre, index = nearest(rest.high * ANGLES)
    h = two_sum(rest.high - centre / ANGLES, rest.low)
    square = h * h
    series = square.high * polynomial(square.high, DOUBLE_SINE) + ratio(1, 120)
    sine = plus(h, h * (square * plus(ratio(-1, 6), series * square)))
    series = square.high * polynomial(square.high, DOUBLE_COSINE) + ratio(1, 24)
    less = square * plus(ratio(-1, 2), series * square)
    index = index + table.most
    sine_c, cosine_c = table.sine[index], table.cosine[index]
    odd = (quarters & 1) != 0
    first, second = chosen(odd, cosine_c, sine_c), chosen(odd, -sine_c, cosine_c)
    value = plus(first, first * less + second * sine)
    value = chosen((quarters & 2) != 0, -value, value)
    return chosen(finite, value, DoubleDouble(np.full_like(x.high, np.nan)))


DOUBLE_SINE = [-1 / math.factorial(7), 1 / math.factorial(9), -1 / math.factorial(11)]
"""Taylor coefficients of sin h, of h^7 and on."""

DOUBLE_COSINE = [-1 / math.factorial(6), 1 / math.factorial(8), -1 / math.factorial(10)]
"""Taylor coefficients of cos h, of h^6 and on."""


def farthest(low: F64, high: F64, value: F64) -> F64:
    """No sine is more than 1."""
    return 1.0 + np.abs(value)


FUNCTION = Elementary(
    name="sin",
    summary="sine of radians",
    precise=mpmath.sin,
    double=Certified(double, DOUBLE_BOUND),
    float64=Certified(float64, FLOAT64_BOUND),
    extended=proportional(double),
    limits=((-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.nan), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=lambda x, value, radius: (np.cos(x), radius**2 / 2),
    farthest=farthest,
    sign="any",
    parity="odd",
    reach=lambda least, high: (LEAST_BINADE, 0),
    hard=HARD,
    usual=2.0,
    loose=4.0,
    c="sin(x)",
)
