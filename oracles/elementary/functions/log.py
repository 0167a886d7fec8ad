"""Natural logarithm."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, LOST, ORDINARY, ZERO, DoubleDouble, ExtendedDouble, chosen, of_ieee, plus, two_sum
from oracles.elementary.elementwise import (
    I64,
    U,
    V,
    halves,
    mantissa,
    nearest,
    of_double,
    of_float64,
    polynomial,
    scaled,
)
from oracles.elementary.function import CANCELLED, Bound, Certified, Elementary
from oracles.elementary.tables import STEPS, logarithms, ratio


@of_float64
def float64(x: F64) -> F64:
    """Return log x = e log 2 - log c + log(1 + r) for x = m 2^e and r = m c - 1, |r| < 2^-10.4; c has 16 bits and comes
    from a table.

    r is exact in two numbers, and so are the multiple of 2^-42 next to e log 2 - log c and its sum with r. The terms
    that are added to this sum, the rests of both and the polynomial, are at most 2^-11 of the result and carry at most
    8 u. Next to x = 1, c is 1 and e is 0. The remainder r^7/7 is 2^-64.6 of the result. The last sum adds u.
    """
    table = logarithms()
    inside = (x > 0) & (x < np.inf)
    m, exponent = mantissa(np.where(inside, x, 1.0))
    index = nearest(m * STEPS)[1] - table.start
    c = table.reciprocal[index]
    high, low = halves(m)
    value = added(two_sum(high * c - 1.0, low * c), index, exponent.astype(np.float64))
    return np.where(inside, value, outside(x))


def added(r: DoubleDouble, index: I64, e: F64) -> F64:
    """Return e log 2 - log c + log(1 + r), where c is the table entry at `index`. The low part of r may be large."""
    table, size = logarithms(), r.high + r.low
    whole = two_sum(e * table.two[0] + table.coarse[index], r.high)
    rest = size * size * polynomial(size, SHORT) + (r.low + (table.rest[index] + e * table.two[1]))
    return whole.high + (whole.low + rest)


SHORT = [(-1) ** (k + 1) / k for k in range(2, 7)]
"""Taylor coefficients of (log(1 + r) - r) / r^2."""


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return log x = e log 2 - log c + log(1 + r) for x = m 2^e, r = m c - 1, |r| < 2^-10.4, with c from a table.

    log(1 + r) = 2 artanh(r / (2 + r)) = 2 s (1 + s^2/3 + ... + s^8/9), with a remainder below 2^-117. The products of r
    are exact and r carries 3 V, 2 + r 2 V, their quotient s 15 V, its last sum 3.1 V: 18.2 V. For e = 0, |log(1 + r)|
    is at most the result and |log c| twice the result: 18.2 V, 0.5 V each, and 3 V of the last sum, 22.2 V. Else e log
    2 - log c is off by 15 V of itself, as |e log 2| is at most twice it, and log(1 + r) is small. If x is 1 and a low
    part next to 2^-1074, the quotient underflows.
    """
    table = logarithms()
    inside = (x.high > 0) & (x.high < np.inf)
    m, exponent = mantissa(np.where(inside, x.high, 1.0))
    index = nearest(m * STEPS)[1] - table.start
    c = table.reciprocal[index]
    high, low = halves(m)
    rest, least = halves(scaled(np.where(inside, x.low, 0.0), -exponent))
    r = two_sum(high * c - 1.0, low * c) + two_sum(rest * c, least * c)
    return chosen(inside, added_double(r, index, exponent.astype(np.float64)), DoubleDouble(outside(x.high)))


def added_double(r: DoubleDouble, index: I64, e: F64) -> DoubleDouble:
    """Return e log 2 - log c + log(1 + r), where c is the table entry at `index`."""
    table = logarithms()
    s = r / (r + 2.0)
    square = s * s
    series = square.high * polynomial(square.high, LONG) + ratio(1, 5)
    half = plus(s, s * (square * plus(ratio(1, 3), series * square)))
    value = plus(table.log_two * e, table.value[index])
    return value + DoubleDouble(2.0 * half.high, 2.0 * half.low)


LONG = [1 / 7, 1 / 9]
"""Coefficients of artanh s, from s^7 on."""


def outside(x: F64) -> F64:
    """Return the logarithms of numbers that are zero, infinite, negative or NaN."""
    return np.where(x == 0, -np.inf, np.where(x > 0, np.inf, np.nan))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    """Return log(x). Far from 1 the logarithm of the fraction is too small to cancel that of the power of two."""
    moved = np.where((np.abs(x.exponent) < ORDINARY) | (x.exponent == ZERO), 0, x.exponent)
    log = double(x.in_units_of(moved))
    added = logarithms().log_two * moved.astype(np.float64) + log
    return ExtendedDouble.of(chosen(moved == 0, log, of_ieee(added, log.high)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: the remainder is p^2 / 2 / (1 - p)^2 with p = radius / x."""
    p = radius / x
    return 1.0 / x, np.where(p < 1, p**2 / 2 * np.maximum(1.0 - p, 0.0) ** -2, np.inf)


FUNCTION = Elementary(
    name="log",
    summary="natural logarithm",
    precise=mpmath.log,
    double=Certified(double, Bound(24 * V, 4 * LOST)),
    float64=Certified(float64, Bound(1.01 * U)),
    extended=extended,
    limits=((-math.inf, math.nan), (-0.0, -math.inf), (0.0, -math.inf), (math.inf, math.inf), (math.nan, math.nan)),
    domain=0.0,
    singular=0.0,
    tangent=tangent,
    farthest=None,
    sign="any",
    parity="neither",
    reach=lambda least, high: (-CANCELLED, 8),
    hard=(1.0, 2.0**-1022, 2.0**-1074, 0.70703125, 1.4140625, 0.5**0.5, 2.0**0.5),
    usual=2.0,
    loose=4.0,
    elasticity=lambda value: 1.0,
)
