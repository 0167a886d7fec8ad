"""Error function."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np

from oracles.doubledouble import F64, LOST, DoubleDouble, absolute, chosen, proportional, two_sum
from oracles.elementary.elementwise import U, V, nearest, of_double, of_float64, polynomial, signed
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.tables import CELLS, FARTHEST, doubled, erf_cells, fixed

TERMS = 9
"""The number of coefficients in float64, those of h^0 to h^8."""

DOUBLED = 8
"""The number of coefficients in double-double, those of h^0 to h^7."""


@of_float64
def float64(x: F64) -> F64:
    """Return erf(c + h) by its Taylor polynomial at the next c = j/64, |h| <= 2^-7, h exact; with the sign of x.

    By Cramer's inequality for Hermite functions the coefficient of h^9 is below 0.011 anywhere, so that the remainder
    is below 2^-62 of the result. For j = 1, the worst case, h B = h (a1 + h (...)) is off by 3.01 u (a1, B, the
    product) and at most 1.01 times the result; its sum with the low part of a0 and the last one add u each: 5.1 u.
    """
    cells = erf_cells()
    size = np.where(np.abs(x) < FARTHEST, np.abs(x), FARTHEST)
    centre, index = nearest(size * CELLS)
    h = size - centre / CELLS
    slope = polynomial(h, [cells[k].high[index] for k in range(1, TERMS)])
    value = np.copysign(cells[0].high[index] + (cells[0].low[index] + h * slope), x)
    return np.where(np.isnan(x), x, value)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return erf(c + h) by its Taylor polynomial of degree 14 at the next c = j/64, |h| <= 2^-7, h exact; with the sign
    of x.

    By Cramer's inequality for Hermite functions the coefficient of h^15 is below 2^-14.7 anywhere, so that the
    remainder is below 2^-112 of the result; those from h^8 on, in float64, add 1 V. For j = 1, the worst case, h times
    the slope is at most 1.01 times the result and off by 8.8 V, a0 twice the result and off by 0.5 V; the last sum adds
    3 V: 14 V. Beyond 9, erf is 1 within 2^-120: 1 - erf(x) has an absolute error, not a relative one.
    """
    cells = erf_cells()
    size = absolute(x)
    size = chosen(size.high < FARTHEST, size, DoubleDouble(np.full_like(x.high, FARTHEST)))
    centre, index = nearest(size.high * CELLS)
    h = two_sum(size.high - centre / CELLS, size.low)
    tail = polynomial(h.high, [cell.high[index] for cell in cells[DOUBLED:]])
    value = cells[DOUBLED - 1][index] + h.high * tail
    for cell in cells[DOUBLED - 2 :: -1]:
        value = value * h + cell[index]
    return chosen(np.isnan(x.high), x, signed(value, x))


@cache
def slope_at_zero() -> DoubleDouble:
    """Return 2 / sqrt(pi)."""
    return doubled([fixed(lambda: 2 / mpmath.sqrt(mpmath.pi))])[0]


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = 2 |x| e^(-x^2) / sqrt(pi) is at most 0.484; it falls from 1/sqrt(2)."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    beyond = 2 * near * np.exp(-(near**2)) / math.sqrt(math.pi)
    bound = np.where(near > math.sqrt(0.5), beyond, 0.484)
    return 2 / math.sqrt(math.pi) * np.exp(-(x**2)), bound * radius**2


FUNCTION = Elementary(
    name="erf",
    summary="error function",
    precise=mpmath.erf,
    double=Certified(double, Bound(16 * V, 2 * LOST)),
    float64=Certified(float64, Bound(5.3 * U, 2.0**-1074)),
    extended=proportional(double, slope_at_zero),
    limits=((-math.inf, -1.0), (-0.0, -0.0), (0.0, 0.0), (math.inf, 1.0), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, 1),
    hard=(1 / 128, 3 / 128, 5.9, 6.0, 8.5, 9.0, 2.0**-1022),
    usual=2.0,
    loose=4.0,
)
