"""Arctangent."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, absolute, chosen, proportional
from oracles.elementary.elementwise import I64, U, V, nearest, of_double, of_float64, polynomial, signed
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.tables import CELLS, doubled, fixed, ratio

LARGEST = 2.0**60
"""The argument from which on atan x is a quarter turn within 0.01 u."""
LARGEST_DOUBLE = 2.0**120
"""The argument from which on atan x is a quarter turn within 2^-15 V."""
EQUAL = 2.0**-55
"""The argument below which atan x equals x within a relative V/32."""

SERIES = [-1 / 3, 1 / 5, -1 / 7, 1 / 9]
"""Taylor coefficients of (atan t - t) / t^3, in t^2."""
LONG = [1 / 9, -1 / 11, 1 / 13, -1 / 15]
"""The coefficients of the terms from t^9 on."""


@cache
def angles() -> tuple[DoubleDouble, DoubleDouble]:
    """Return two arrays, shape (CELLS + 1,): atan(j/CELLS) for each j, and a quarter turn minus atan(j/CELLS)."""
    found = [fixed(lambda j: mpmath.atan(mpf(j) / CELLS), j) for j in range(CELLS + 1)]
    quarter = fixed(lambda: mpmath.pi / 2)
    return doubled(found), doubled(quarter - each for each in found)


def cell(size: F64) -> tuple[F64, I64, NDArray[np.bool_]]:
    """Return the multiple c of 1/CELLS next to `size`, or next to 1 / size where size > 1; then c * CELLS; then the
    mask of size > 1."""
    large = size > 1.0
    centre, index = nearest(np.where(large, 1.0 / size, size) * CELLS)
    return centre / CELLS, index, large


@of_float64
def float64(x: F64) -> F64:
    """Return atan x as atan c + atan t with t = (x - c) / (1 + x c) for the next c = j/64, |t| < 2^-7. For x > 1, with
    1/x next to c, it is pi/2 - atan c + atan t with t = (c x - 1) / (x + c). Both get the sign of x.

    The numerator is exact, 1 + x c is off by 2 u, the quotient t by 3 u, and |t| is at most the result, for j = 1; the
    sum with the low part of atan c and the last one add u each: 5.1 u. The remainder t^11/11 is 2^-73 of t. For x > 1
    the numerator is off by u (1 + x/128), so that t is off by 1.1 u, absolutely, and the result is 0.78 at least: 2.5
    u.
    """
    size = np.where(np.abs(x) < LARGEST, np.abs(x), LARGEST)
    c, index, large = cell(size)
    t = np.where(large, c * size - 1.0, size - c) / np.where(large, size + c, 1.0 + size * c)
    square = t * t
    angle = t + t * (square * polynomial(square, SERIES))
    small, rest = angles()
    high, low = (np.where(large, getattr(rest, part)[index], getattr(small, part)[index]) for part in ("high", "low"))
    return np.where(np.isnan(x), x, np.copysign(high + (low + angle), x))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the arctangent as `float64` does: the numerator is off by 2 V, the denominator by 5 V, the quotient by 17
    V, and the sum of the angles by 3 V. The terms from t^9 on are in float64, the remainder t^17/17 is 2^-116 of t: 24
    V. For x > 1 the numerator is off by 5 V (1 + x/128)."""
    size = absolute(x)
    near = size.high < LARGEST_DOUBLE
    size = chosen(near, size, DoubleDouble(np.full_like(x.high, LARGEST_DOUBLE)))
    c, index, large = cell(size.high)
    above = chosen(large, size * c - 1.0, size - c)
    t = above / chosen(large, size + c, size * c + 1.0)
    square = t * t
    series = square.high * polynomial(square.high, LONG) + ratio(-1, 7)
    series = square * (square * (square * series + ratio(1, 5)) + ratio(-1, 3))
    small, rest = angles()
    value = signed(chosen(large, rest[index], small[index]) + (t + t * series), x)
    return chosen((np.abs(x.high) < EQUAL) | np.isnan(x.high), x, value)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = |x| / (1 + x^2)^2 is at most 0.325, and falls from 1/sqrt(3) on."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    bound = np.where(near > math.sqrt(1 / 3), near / (1.0 + near**2) / (1.0 + near**2), 0.325)
    return 1.0 / (1.0 + x**2), bound * radius**2


FUNCTION = Elementary(
    name="atan",
    summary="arctangent, in radians",
    precise=mpmath.atan,
    double=Certified(double, Bound(26 * V)),
    float64=Certified(float64, Bound(5.2 * U)),
    extended=proportional(double),
    limits=(
        (-math.inf, -math.pi / 2), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.pi / 2), (math.nan, math.nan),
    ),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, 1),
    hard=(1 / 128, 3 / 128, 1.0, 127 / 128, 128.0, 128 / 3, 2.0**60, 2.0**120, 2.0**-55, 2.0**-1022),
    usual=2.0,
    loose=4.0,
)  # fmt: skip
