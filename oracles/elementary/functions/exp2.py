"""2^x."""

from __future__ import annotations

import math

import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen, two_sum, whichever
from oracles.elementary.elementwise import I64, U, V, nearest, of_double, of_float64, scaled_double
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary, of_growth
from oracles.elementary.functions import exp
from oracles.elementary.tables import STEP_BITS, STEPS, logarithms

LARGEST = 1025.0
"""The argument from which on 2^x overflows."""
LEAST = -1077.0
"""The argument below which 2^x rounds to zero."""
_FARTHEST = 2.0**25
"""The magnitude of x beyond which 2^x overflows or underflows in any format."""


def precise(x: mpf) -> mpf:
    return mpf(2) ** x if abs(x) <= 2 * _FARTHEST else mpf(math.inf if x > 0 else 0)


@of_float64
def float64(x: F64) -> F64:
    """Return 2^m T (1 + q) as `exp` does, with q = e^r - 1 for r = (x - (m + j/1024)) log 2: the difference is exact,
    and r carries 2 u, 2^-10.5 u of the result."""
    exponent, index, rest = steps(np.clip(x, LEAST, LARGEST))
    return exp.powered(exponent, index, rest * math.log(2))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return 2^m (1 + a) as `exp` does; r carries 5 V instead: 4.3 V."""
    inside = (x.high > LEAST) & (x.high < LARGEST)
    exponent, a = parts(chosen(inside, x, DoubleDouble(np.where(x.high > 0, LARGEST, LEAST))))
    return chosen(np.isnan(x.high), x, scaled_double(a + 1.0, exponent))


def steps(x: F64) -> tuple[I64, I64, F64]:
    """Return the parts of x = m + j/1024 + rest, each of shape (n,): m, the table's index of j, and the exact rest."""
    whole, number = nearest(x * STEPS)
    number += STEPS // 2
    return number >> STEP_BITS, number & (STEPS - 1), x - whole / STEPS


def parts(x: DoubleDouble) -> tuple[I64, DoubleDouble]:
    """Return m and a, with 2^x = 2^m (1 + a) and -0.3 < a < 0.42, see `exp.parts`."""
    exponent, index, rest = steps(x.high)
    return exponent, exp.less_one(index, two_sum(rest, x.low) * logarithms().log_two)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    size = x.doubled
    near = np.abs(size.high) <= _FARTHEST
    exponent, a = parts(chosen(near, size, DoubleDouble(np.zeros(x.shape))))
    far = np.where(np.isnan(size.high), np.nan, np.where(size.high > 0, np.inf, 0.0))
    return whichever(near, ExtendedDouble.of(a + 1.0, exponent), ExtendedDouble.of(DoubleDouble(far)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return value * math.log(2), of_growth(value, radius * math.log(2))


def reach(least: int, high: int) -> tuple[int, int]:
    """Return the exponents of two between which 2^x lies for |x| < 2^high."""
    beyond = min(-LEAST_BINADE, math.ceil(2.0 ** min(high, 8)))
    return -beyond, beyond


FUNCTION = Elementary(
    name="exp2",
    summary="2^value",
    precise=precise,
    double=Certified(double, Bound(5 * V, 2.0**-1073)),
    float64=Certified(float64, Bound(1.01 * U, 2.0**-1074)),
    extended=extended,
    limits=((-math.inf, 0.0), (-0.0, 1.0), (0.0, 1.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=reach,
    hard=(1023.0, 1023.9999999999999, -1022.0, -1074.0, -1074.9, 0.5, 3.0, 2.0**-54),
    usual=2.0,
    loose=4.0,
)
