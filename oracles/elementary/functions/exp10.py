"""10^x."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen, two_sum, whichever
from oracles.elementary.elementwise import I64, U, V, nearest, of_double, rounded, scaled_double
from oracles.elementary.function import Bound, Certified, Elementary, of_growth
from oracles.elementary.functions import exp, exp2
from oracles.elementary.tables import doubled, fixed, pieces

LARGEST = 309.0
"""The argument from which on 10^x overflows."""
LEAST = -324.5
"""The argument below which 10^x rounds to zero."""
_FARTHEST = 2.0**24
"""The magnitude of x beyond which 10^x overflows or underflows in any format."""


@cache
def constants() -> tuple[tuple[float, ...], DoubleDouble]:
    """Return log10(2) in four pieces, whose products with whole numbers below 2^21 are exact, and log(10)."""
    log_two = fixed(lambda: mpmath.log10(2))
    return pieces(log_two, 30, 31, 4), doubled([fixed(lambda: mpmath.log(10))])[0]


def precise(x: mpf) -> mpf:
    return mpf(10) ** x if abs(x) <= 2 * _FARTHEST else mpf(math.inf if x > 0 else 0)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return 10^x = 2^n (1 + a), see `parts`; the last sum adds 2 V to what a carries."""
    inside = (x.high > LEAST) & (x.high < LARGEST)
    exponent, a = parts(chosen(inside, x, DoubleDouble(np.where(x.high > 0, LARGEST, LEAST))))
    return chosen(np.isnan(x.high), x, scaled_double(a + 1.0, exponent))


def parts(x: DoubleDouble) -> tuple[I64, DoubleDouble]:
    """Return n and a, with 10^x = 2^n (1 + a), where 1 + a is e^(r log 10) and r = x - n log10(2), |r| < 0.151.

    The products of n and of pieces are exact, and so is the first difference; what pieces miss is below 2^-100 V. The
    three sums are off by 3 V of r each, and by less before: 10 V of r log 10 with the product's 5 V, which is at most
    0.35. `exp.parts` adds 5 V: 9 V of the result."""
    pieces, log_ten = constants()
    turns, number = nearest(x.high / (pieces[0] + pieces[1]))
    r = two_sum(x.high - turns * pieces[0], -turns * pieces[1]) + two_sum(x.low, -turns * pieces[2])
    more, a = exp.parts((r + -turns * pieces[3]) * log_ten)
    return number + more, a


def extended(x: ExtendedDouble) -> ExtendedDouble:
    size = x.doubled
    near = np.abs(size.high) <= 2.0**18
    exponent, a = parts(chosen(near, size, DoubleDouble(np.zeros(x.shape))))
    log_ten = ExtendedDouble.of(constants()[1])
    return whichever(near, ExtendedDouble.of(a + 1.0, exponent), exp.extended(x * log_ten))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return value * math.log(10), of_growth(value, radius * (math.log(10) * (1 + 2.0**-50)))


def reach(least: int, high: int) -> tuple[int, int]:
    """Return the exponents of two between which 10^x lies for |x| < 2^high."""
    return exp2.reach(least, high + 2)


FUNCTION = Elementary(
    name="exp10",
    summary="10^value",
    precise=precise,
    double=Certified(double, Bound(12 * V, 2.0**-1073)),
    float64=Certified(rounded(double), Bound(1.01 * U, 2.0**-1073)),
    extended=extended,
    limits=((-math.inf, 0.0), (-0.0, 1.0), (0.0, 1.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=reach,
    hard=(308.25, -307.65, -323.3, 38.5, -37.9, 0.1505, 2.0, 2.0**-54),
    usual=2.0,
    loose=4.0,
)
