"""Complementary error function."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen, two_sum, whichever
from oracles.elementary.elementwise import (
    LEAST,
    U,
    V,
    mantissa,
    nearest,
    of_double,
    polynomial,
    power,
    rounded,
    scaled_double,
)
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary
from oracles.elementary.functions import erf, exp
from oracles.elementary.tables import CELLS, PLACES, doubled, fixed

NEAR = 0.5
"""The argument below which erfc x is 1 - erf x."""
LARGEST = 27.5
"""The argument from which on erfc x rounds to zero."""
BINADES = 14
"""The number of powers of two, from 1/2 on, with whose multiples the table has cells."""
FARTHEST = 4096.0
"""The argument from which on erfc x underflows in any format."""
DEGREE = 16
DOUBLED = 9
"""The number of coefficients in double-double."""
_FIRST = round(LEAST * CELLS)
_WIDTH = _FIRST + 2
"""The mantissas of a power of two, from `_FIRST` / 64 to twice that, and one more."""


@cache
def scaled_cells() -> tuple[DoubleDouble, ...]:
    """Return, for each power k up to `DEGREE`, the coefficients of h^k in g(c + h) with g(x) = e^(x^2) erfc x, where c
    is 2^e j/64 for each e from -1 on and each j of a mantissa. g' = 2 x g - 2 / sqrt(pi), so that the coefficients have
    (k + 1) g_(k+1) = 2 (c g_k + g_(k-1)), less 2 / sqrt(pi) for k = 0."""
    columns: list[list[int]] = [[] for _ in range(DEGREE + 1)]
    slope = fixed(lambda: 2 / mpmath.sqrt(mpmath.pi))
    for row in range(BINADES * _WIDTH):
        binade, j = divmod(row, _WIDTH)
        c = ((j + _FIRST) << (PLACES + binade - 1)) // CELLS
        previous, last = -slope // 2, fixed(_scaled, c)
        for k, column in enumerate(columns):
            column.append(last)
            previous, last = last, 2 * ((c * last >> PLACES) + previous) // (k + 1)
    return tuple(doubled(column) for column in columns)


def _scaled(c: int) -> mpf:
    exact = mpmath.ldexp(c, -PLACES)
    return mpmath.exp(exact**2) * mpmath.erfc(exact)


def parts(x: DoubleDouble) -> tuple[F64, DoubleDouble, DoubleDouble]:
    """Return c^2, w and g for x from `NEAR` to `FARTHEST`, where erfc x = e^(-c^2) e^w g. c is next to x, a mantissa of
    7 bits times a power of two, so that c^2 is exact; w = -(2 c + h) h with h = x - c, |h| < c/90; and g is that of
    `scaled_cells` by its Taylor polynomial.

    w is off by 7 V. The remainder of g is 2^-110 of it, since its coefficients are at most c^-k of it; the last sum
    adds 3 V, and the rest 0.6 V."""
    m, exponent = mantissa(x.high)
    centre, index = nearest(m * CELLS)
    c = centre / CELLS * power(exponent)
    h = two_sum(x.high - c, x.low)
    cells, row = scaled_cells(), (exponent + 1) * _WIDTH + index - _FIRST
    tail = polynomial(h.high, [cell.high[row] for cell in cells[DOUBLED:]])
    value = cells[DOUBLED - 1][row] + h.high * tail
    for cell in cells[DOUBLED - 2 :: -1]:
        value = value * h + cell[row]
    return c * c, -((h + 2.0 * c) * h), value


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return 1 - erf x below 1/2, where erf is off by 16 V and at most 1.1 times the result: 21 V. From there on return
    the product of two powers, off by 5 V each, and g, see `parts`: w is at most 6.8 and off by 48 V, the products add
    10 V: 72 V."""
    near = 1.0 - erf.double(chosen(x.high < NEAR, x, DoubleDouble(np.zeros_like(x.high))))
    inside = (x.high >= NEAR) & (x.high < LARGEST)
    limit = DoubleDouble(np.where(x.high < LARGEST, NEAR, LARGEST))
    square, w, value = parts(chosen(inside, x, limit))
    (first, a), (second, b) = exp.parts(DoubleDouble(-square)), exp.parts(w)
    far = scaled_double((a + 1.0) * ((b + 1.0) * value), first + second)
    return chosen(np.isnan(x.high), x, chosen(x.high < NEAR, near, far))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    """Return erfc x, whose error is that of a relative error of 2^-110 in x where both powers are small."""
    size = x.doubled
    inside = (size.high >= NEAR) & (size.high < FARTHEST)
    square, w, value = parts(chosen(inside, size, DoubleDouble(np.full(x.shape, NEAR))))
    first, second = (exp.extended(ExtendedDouble.of(each)) for each in (DoubleDouble(-square), w))
    return whichever(inside, first * (second * ExtendedDouble.of(value)), ExtendedDouble.of(double(size)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: those of the error function, with the other sign."""
    slope, remainder = erf.tangent(x, value, radius)
    return -slope, remainder


FUNCTION = Elementary(
    name="erfc",
    summary="1 - erf(value)",
    precise=lambda x: mpmath.erfc(x) if x < FARTHEST else mpf(0),
    double=Certified(double, Bound(73 * V, 2.0**-1073)),
    float64=Certified(rounded(double), Bound(1.01 * U, 2.0**-1073)),
    extended=extended,
    limits=((-math.inf, 2.0), (-0.0, 1.0), (0.0, 1.0), (math.inf, 0.0), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=lambda least, high: (LEAST_BINADE, 2),
    hard=(0.5, 0.50391, 0.4999, 1.0, 10.05, 26.5, 27.2, -6.0, 2.0**-54),
    usual=4.0,
    loose=8.0,
)
