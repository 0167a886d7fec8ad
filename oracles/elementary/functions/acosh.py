"""Inverse hyperbolic cosine."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, chosen, whichever
from oracles.elementary.elementwise import U, V, of_double, rounded
from oracles.elementary.function import CANCELLED, Bound, Certified, Elementary
from oracles.elementary.functions import log, log1p, sqrt
from oracles.elementary.functions.asinh import FAR, log_of_twice


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return log(1 + (t + sqrt(t) sqrt(t + 2))) with t = x - 1. t is off by 2 V, the roots by 5 V and 6 V, their
    product by 16 V, and its sum with t by 19 V, of which the logarithm passes on at most as much; it adds 34 V: 53
    V."""
    inside = chosen(x.high < FAR, x, DoubleDouble(np.ones_like(x.high))) - 1.0
    near = log1p.double(inside + sqrt.double(inside) * sqrt.double(inside + 2.0))
    return chosen(x.high >= FAR, log_of_twice(x), chosen(np.isnan(x.high), x, near))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    far = log.extended(ExtendedDouble(x.fraction, x.exponent + 1))
    return whichever((x.exponent > ORDINARY) & (x.fraction.high > 0), far, ExtendedDouble.of(double(x.doubled)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = x / 2 / (x^2 - 1)^(3/2) = 1 / 2 / (x - 1)^(3/2) / (x + 1)^(1/2) / (1 +
    1/x), which falls."""
    near = x - radius
    below = np.maximum(near - 1.0, 0.0)
    bound = 0.5 * below**-1.5 * (near + 1.0) ** -0.5 / (1.0 + 1.0 / near)
    return (x - 1.0) ** -0.5 * (x + 1.0) ** -0.5, np.where(below > 0, bound * radius**2, np.inf)


FUNCTION = Elementary(
    name="acosh",
    summary="inverse hyperbolic cosine",
    precise=mpmath.acosh,
    double=Certified(double, Bound(54 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=extended,
    limits=(
        (-math.inf, math.nan), (-0.0, math.nan), (0.0, math.nan), (math.inf, math.inf), (math.nan, math.nan),
        (1.0, 0.0),
    ),
    domain=1.0,
    singular=1.0,
    tangent=tangent,
    farthest=None,
    sign="positive",
    parity="neither",
    reach=lambda least, high: (-CANCELLED, 8),
    hard=(1.0 + 2.0**-52, 1.25, 2.0, 2.0**27, 2.0**60, 2.0**1023),
    usual=3.0,
    loose=6.0,
)  # fmt: skip
