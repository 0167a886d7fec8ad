"""Hyperbolic cosine."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary.elementwise import U, V, of_double, rounded
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import exp
from oracles.elementary.functions.sinh import FAR, HARD, half_of_power


def precise(x: mpf) -> mpf:
    return mpmath.cosh(x) if abs(x) < 2 * FAR else exp.precise(abs(x)) / 2


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return (e + 1 / e) / 2 with e = e^|x|: 5 V of either, 10 V of the reciprocal, at most half of the sum, and 3 V of
    the sum: 13 V."""
    size = absolute(x)
    e = exp.double(chosen(size.high < FAR, size, DoubleDouble(np.zeros_like(size.high))))
    both = e + 1.0 / e
    value = chosen(size.high < FAR, DoubleDouble(both.high / 2, both.low / 2), half_of_power(size))
    return chosen(np.isnan(x.high), x, value)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    sign = np.copysign(1.0, x.fraction.high)
    size = ExtendedDouble(DoubleDouble(sign * x.fraction.high, sign * x.fraction.low), x.exponent)
    far = exp.extended(size) * ExtendedDouble.of(DoubleDouble(np.full(x.shape, 0.5)))
    return whichever(size.doubled.high > FAR, far, ExtendedDouble.of(double(x.doubled)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = cosh x / 2, which grows with |x|."""
    return np.sinh(x), np.where(radius == 0, 0.0, np.cosh(np.abs(x) + radius) / 2 * radius**2)


def farthest(low: F64, high: F64, value: F64) -> F64:
    """Return the largest distance from a value: cosh x is least next to 0."""
    ends = [FUNCTION.float64.value(end) for end in (low, high)]
    least = np.where((low <= 0) & (high >= 0), 1.0, np.minimum(*ends))
    away = np.maximum(np.maximum(*ends) - value, value - least)
    return np.where(np.isnan(away), np.inf, away)


FUNCTION = Elementary(
    name="cosh",
    summary="hyperbolic cosine",
    precise=precise,
    double=Certified(double, Bound(14 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=extended,
    limits=((-math.inf, math.inf), (-0.0, 1.0), (0.0, 1.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=farthest,
    sign="positive",
    parity="even",
    reach=lambda least, high: (-1, exp.reach(least, high)[1]),
    hard=HARD,
    usual=3.0,
    loose=6.0,
)
