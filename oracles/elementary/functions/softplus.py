"""log(1 + e^x), which is close to x for large x and close to e^x far below zero."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, LOST, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary.elementwise import U, V, of_double, of_float64
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import exp, log1p

FADED = 600.0
"""The argument from which on softplus x is x, and below whose negative it is e^x, within a relative e^-600."""


def precise(x: mpf) -> mpf:
    return (x if x > 0 else 0) + mpmath.log1p(exp.precise(-abs(x)))


@of_float64
def float64(x: F64) -> F64:
    """Return max(x, 0) + log(1 + e), with e = e^-|x|, which never overflows. e is off by 1.01 u, and log(1 + e) by at
    most 2.1 u more; the sum adds u: 4.2 u."""
    return np.maximum(x, 0.0) + log1p.float64(exp.float64(-np.abs(x)))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return softplus as `float64` does: e adds 5 V, the logarithm 34 V, the sum 3 V. Beyond 120 it is x (2^-60 V)."""
    zero = DoubleDouble(np.zeros_like(x.high))
    value = chosen((x.high > 0) & (x.high < 120.0), x, zero) + log1p.double(exp.double(-absolute(x)))
    return chosen((x.high >= 120.0) | np.isnan(x.high), x, value)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    value = x.doubled
    near = whichever(value.high > FADED, x, ExtendedDouble.of(double(value)))
    return whichever(value.high < -FADED, exp.extended(x), near)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: the slope is the sigmoid, whose derivative is at most 1/4, and at most e^-|x|."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small), np.minimum(0.125, np.exp(-near) / 2) * radius**2


FUNCTION = Elementary(
    name="softplus",
    summary="log(1 + e^value)",
    precise=precise,
    double=Certified(double, Bound(42 * V, 2 * LOST)),
    float64=Certified(float64, Bound(4.2 * U, 2.0**-1074)),
    extended=extended,
    limits=((-math.inf, 0.0), (-0.0, math.log(2)), (0.0, math.log(2)), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=lambda least, high: (exp.reach(least, high)[0] - 1, max(high, 0) + 1),
    hard=(-708.0, -745.0, 36.7, -37.0, 120.0, 20.0),
    usual=4.0,
    loose=8.0,
)
