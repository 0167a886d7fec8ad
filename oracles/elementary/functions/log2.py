"""Logarithm to the base 2."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, LOST, DoubleDouble, ExtendedDouble, chosen
from oracles.elementary.elementwise import U, V, mantissa, of_double, of_float64, scaled
from oracles.elementary.function import CANCELLED, Bound, Certified, Elementary
from oracles.elementary.functions import log
from oracles.elementary.tables import doubled, fixed


def precise(x: mpf) -> mpf:
    """Return log2(x), exact for powers of two."""
    _, significand, exponent, _ = x._mpf_
    return mpf(exponent) if significand == 1 else mpmath.log(x) / mpmath.log(2)


@cache
def bits_per_unit() -> DoubleDouble:
    """Return 1 / log 2."""
    return doubled([fixed(lambda: 1 / mpmath.log(2))])[0]


@of_float64
def float64(x: F64) -> F64:
    """Return e + log m / log 2 for x = m 2^e, 0.707 < m < 1.415, so that powers of two are exact. The logarithm adds
    1.01 u, the constant and the product u each: 3.1 u for e = 0. For other e the product is at most as large as the
    result, and the last sum adds u: 4.1 u."""
    inside = (x > 0) & (x < np.inf)
    m, exponent = mantissa(np.where(inside, x, 1.0))
    value = exponent.astype(np.float64) + log.float64(m) * float(bits_per_unit().high)
    return np.where(inside, value, log.outside(x))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the logarithm as `float64` does: the logarithm adds 24 V and the product 6 V. For e = 0 that is all. For
    other e the product is at most as large as the result, and the last sum adds 2 V: 32 V."""
    inside = (x.high > 0) & (x.high < np.inf)
    exponent, value = parts(chosen(inside, x, DoubleDouble(np.ones_like(x.high))))
    return chosen(inside, value + exponent, DoubleDouble(log.outside(x.high)))


def parts(x: DoubleDouble) -> tuple[F64, DoubleDouble]:
    """Return e and log m / log 2, between -1/2 and 1/2, for x = m 2^e, which is positive and finite."""
    m, exponent = mantissa(x.high)
    logarithm = log.double(DoubleDouble(m, scaled(x.low, -exponent)))
    return exponent.astype(np.float64), logarithm * bits_per_unit()


def extended(x: ExtendedDouble) -> ExtendedDouble:
    inside = (x.fraction.high > 0) & np.isfinite(x.fraction.high)
    exponent, value = parts(chosen(inside, x.fraction, DoubleDouble(np.ones(x.shape))))
    value = value + (exponent + x.exponent)
    return ExtendedDouble.of(chosen(inside, value, DoubleDouble(log.outside(x.fraction.high))))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    slope, remainder = log.tangent(x, value, radius)
    return slope / math.log(2), remainder / math.log(2) * (1 + 2.0**-50)


FUNCTION = Elementary(
    name="log2",
    summary="logarithm to the base 2",
    precise=precise,
    double=Certified(double, Bound(34 * V, 8 * LOST)),
    float64=Certified(float64, Bound(4.2 * U)),
    extended=extended,
    limits=((-math.inf, math.nan), (-0.0, -math.inf), (0.0, -math.inf), (math.inf, math.inf), (math.nan, math.nan)),
    domain=0.0,
    singular=0.0,
    tangent=tangent,
    farthest=None,
    sign="any",
    parity="neither",
    reach=lambda least, high: (-CANCELLED, 8),
    hard=log.FUNCTION.hard,
    usual=2.0,
    loose=4.0,
    elasticity=lambda value: 1 / math.log(2),
)
