"""Inverse hyperbolic sine."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary.elementwise import U, V, of_double, rounded, signed
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import log, log1p, sqrt
from oracles.elementary.tables import logarithms

EQUAL = 2.0**-55
"""The magnitude of x below which asinh x equals x within a relative V/32."""
FAR = 2.0**60
"""The magnitude of x from which on asinh x and acosh x are log(2 |x|) within a relative 2^-16 V."""


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return log(1 + t) with t = |x| + x^2 / (1 + sqrt(1 + x^2)), and the sign of x. x^2 is off by 5 V, the root by 8
    V, its sum with 1 by 10 V, and the quotient, at most half of t, by 25 V; the sum adds 3 V: 16 V, of which the
    logarithm passes on at most as much. It adds 34 V: 50 V."""
    size = absolute(x)
    inside = chosen(size.high < FAR, size, DoubleDouble(np.zeros_like(x.high)))
    square = inside * inside
    near = log1p.double(inside + square / (sqrt.double(square + 1.0) + 1.0))
    value = signed(chosen(size.high < FAR, near, log_of_twice(size)), x)
    return chosen((size.high < EQUAL) | np.isnan(x.high), x, value)


def log_of_twice(x: DoubleDouble) -> DoubleDouble:
    """Return log(2 x) for x > 1, within 28 V."""
    value = log.double(x)
    return chosen(np.isfinite(value.high), value + logarithms().log_two, value)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    near = whichever(x.exponent < -ORDINARY, x, ExtendedDouble.of(double(x.doubled)))
    sign = np.copysign(1.0, x.fraction.high)
    twice = ExtendedDouble(DoubleDouble(sign * x.fraction.high, sign * x.fraction.low), x.exponent + 1)
    far = log.extended(twice) * ExtendedDouble.of(DoubleDouble(sign))
    return whichever(x.exponent > ORDINARY, far, near)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = |x| / 2 / (1 + x^2)^(3/2) is at most 0.193; it falls from 1/sqrt(2)."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    bound = np.where(near > math.sqrt(0.5), near / 2 / np.hypot(1.0, near) ** 3, 0.193)
    return 1.0 / np.hypot(1.0, x), np.where(np.isnan(bound), 0.0, bound) * radius**2


FUNCTION = Elementary(
    name="asinh",
    summary="inverse hyperbolic sine",
    precise=mpmath.asinh,
    double=Certified(double, Bound(51 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=extended,
    limits=((-math.inf, -math.inf), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, 8),
    hard=(0.25, 2.0**-55, 2.0**-27, 2.0**27, 2.0**60, -(2.0**1023), 2.0**-1022),
    usual=3.0,
    loose=6.0,
)
