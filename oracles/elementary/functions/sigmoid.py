"""1 / (1 + e^-x)."""

from __future__ import annotations

import math

import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, LOST, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary.elementwise import U, V, of_double, of_float64
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import exp

FADED = -600.0
"""The argument below which sigmoid x is e^x within a relative e^-600."""


def precise(x: mpf) -> mpf:
    return 1 / (1 + exp.precise(-x))


@of_float64
def float64(x: F64) -> F64:
    """Return 1 / (1 + e^-x) as 1 / (1 + e) for x >= 0 and e / (1 + e) below, with e = e^-|x|, which never overflows. e
    adds 1.01 u, the sum u, the division u; below -708 the underflow of e and of the quotient half of 2^-1074 each."""
    e = exp.float64(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return 1 / (1 + e) for x >= 0 and e / (1 + e) below, with e = e^-|x|, which never overflows. e adds 5 V, the sum
    2 V, the division 10 V; underflow in e and in the division costs at most 2 `LOST`."""
    e = exp.double(-absolute(x))
    one = DoubleDouble(np.ones_like(e.high))
    return chosen(x.high >= 0, one, e) / (e + 1.0)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    value = x.doubled
    return whichever(value.high < FADED, exp.extended(x), ExtendedDouble.of(double(value)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 is at most 0.0482, and at most e^-|x| / 2."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    small = np.exp(-np.abs(x))
    return small / (1 + small) ** 2, np.minimum(0.0482, np.exp(-near) / 2) * radius**2


FUNCTION = Elementary(
    name="sigmoid",
    summary="1 / (1 + e^-value)",
    precise=precise,
    double=Certified(double, Bound(18 * V, 2 * LOST)),
    float64=Certified(float64, Bound(3.1 * U, 2.0**-1074)),
    extended=extended,
    limits=((-math.inf, 0.0), (-0.0, 0.5), (0.0, 0.5), (math.inf, 1.0), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=lambda least, high: (exp.reach(least, high)[0] - 1, 0),
    hard=(-708.0, -745.0, 36.7, 709.78, -37.0),
    usual=3.0,
    loose=6.0,
)
