"""Logarithm to the base 10."""

from __future__ import annotations

import math
from functools import cache

import mpmath

from oracles.doubledouble import F64, LOST, DoubleDouble, ExtendedDouble, chosen
from oracles.elementary.elementwise import U, V, of_double, rounded
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import log
from oracles.elementary.tables import doubled, fixed


@cache
def digits_per_unit() -> DoubleDouble:
    """Return 1 / log 10."""
    return doubled([fixed(lambda: 1 / mpmath.log(10))])[0]


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return log x / log 10: the logarithm is off by 24 V, and the product adds 6 V."""
    value = log.double(x)
    finite = (x.high > 0) & (x.high < math.inf)
    return chosen(finite, value * digits_per_unit(), value)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    return log.extended(x) * ExtendedDouble.of(digits_per_unit())


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    slope, remainder = log.tangent(x, value, radius)
    return slope / math.log(10), remainder / math.log(10) * (1 + 2.0**-50)


FUNCTION = Elementary(
    name="log10",
    summary="logarithm to the base 10",
    precise=mpmath.log10,
    double=Certified(double, Bound(31 * V, 8 * LOST)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=extended,
    limits=log.FUNCTION.limits,
    domain=0.0,
    singular=0.0,
    tangent=tangent,
    farthest=None,
    sign="any",
    parity="neither",
    reach=log.FUNCTION.reach,
    hard=(*log.FUNCTION.hard, 10.0, 1e-10),
    usual=3.0,
    loose=4.0,
    elasticity=lambda value: 1 / math.log(10),
)
