"""Arccosine."""

from __future__ import annotations

import math

import mpmath

from oracles.doubledouble import F64, DoubleDouble, ordinary
from oracles.elementary.elementwise import U, V, of_double, rounded
from oracles.elementary.function import CANCELLED, Bound, Certified, Elementary
from oracles.elementary.functions import asin, atan, sqrt


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return twice the arctangent of sqrt(1 - x) / sqrt(1 + x): the roots are off by 5 V, the quotient by 20 V, of
    which the arctangent passes on at most as much; it adds 26 V: 46 V."""
    half = atan.double(sqrt.double(1.0 - x) / sqrt.double(x + 1.0))
    return DoubleDouble(2.0 * half.high, 2.0 * half.low)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: those of the arcsine, with the other sign."""
    slope, remainder = asin.tangent(x, value, radius)
    return -slope, remainder


FUNCTION = Elementary(
    name="acos",
    summary="arccosine, in radians",
    precise=mpmath.acos,
    double=Certified(double, Bound(47 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=ordinary(double),
    limits=(
        (-math.inf, math.nan), (-0.0, math.pi / 2), (0.0, math.pi / 2), (math.inf, math.nan), (math.nan, math.nan),
        (-1.0, math.pi), (1.0, 0.0),
    ),
    domain=-1.0,
    top=1.0,
    singular=None,
    apart=asin.apart,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=lambda least, high: (-CANCELLED, 2),
    hard=asin.HARD,
    usual=2.0,
    loose=4.0,
)  # fmt: skip
