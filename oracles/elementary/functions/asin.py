"""Arcsine, and what it shares with the arccosine."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, chosen, proportional
from oracles.elementary.elementwise import U, V, of_double, rounded
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import atan, sqrt


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the arctangent of x / (sqrt(1 - x) sqrt(1 + x)): 1 - x and 1 + x are off by 2 V, their roots by 5 V, the
    product by 15 V, the quotient by 25 V, of which the arctangent passes on at most as much; it adds 26 V: 51 V."""
    ratio = x / (sqrt.double(1.0 - x) * sqrt.double(x + 1.0))
    value = atan.double(ratio)
    return chosen(np.abs(x.high) < atan.EQUAL, x, value)


def apart(x: F64) -> F64:
    """Return the distance from the nearest end of the domain, from -1 to 1."""
    return np.abs(1.0 - np.abs(x))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = |x| / 2 / (1 - x^2)^(3/2), which grows with |x|."""
    most = np.abs(x) + radius
    below = np.maximum(1.0 - most, 0.0)
    bound = most / 2 * (below * (1.0 + most)) ** -1.5 * radius**2
    return 1.0 / np.sqrt((1.0 - x) * (1.0 + x)), np.where(below > 0, bound, np.inf)


HARD = (-0.5, 0.5, 0.7071, 1.0 - 2.0**-53, 2.0**-1 - 1.0, 2.0**-55, 2.0**-27, 2.0**-1022)

FUNCTION = Elementary(
    name="asin",
    summary="arcsine, in radians",
    precise=mpmath.asin,
    double=Certified(double, Bound(52 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=proportional(double),
    limits=(
        (-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.nan), (math.nan, math.nan),
        (-1.0, -math.pi / 2), (1.0, math.pi / 2),
    ),
    domain=-1.0,
    top=1.0,
    singular=None,
    apart=apart,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, 1),
    hard=HARD,
    usual=2.0,
    loose=4.0,
)  # fmt: skip
