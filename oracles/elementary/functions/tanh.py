"""Hyperbolic tangent."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, absolute, chosen, proportional
from oracles.elementary.elementwise import U, V, of_double, of_float64, signed
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions.expm1 import less_one, less_one_double

EQUAL = 2.0**-55
"""The magnitude of x below which tanh x equals x within a relative V/32."""


@of_float64
def float64(x: F64) -> F64:
    """Return tanh x = -E / (2 + E) with E = e^(-2|x|) - 1, and the sign of x. E is off by 1.01 u (by half of that for
    |E| >= 1/2, where its unit is fixed), and the quotient by 2 / (2 + E) times as much: at most 1.35 u. 2 + E and the
    division add u / (2 + E) and u: at most 3.03 u."""
    less = less_one(np.maximum(-2.0 * np.abs(x), -40.0))
    return np.copysign(less / (2.0 + less), x)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return tanh x = -E / (2 + E) with E = e^(-2|x|) - 1, and the sign of x. E is off by 20 V for m = 0, where |E| <
    0.3, and by 6 V else, where |E| is at least 0.29 and its sum adds 3 V of it. The quotient is off by 2 / (2 + E)
    times that, at most 1.18 and 2 times; 2 + E and the division add 2 V and 10 V: 35.6 V. Beyond 40, tanh is 1 within
    2^-114."""
    size = absolute(x)
    near = size.high < 40.0
    doubled = DoubleDouble(np.where(near, -2.0 * size.high, -80.0), np.where(near, -2.0 * size.low, 0.0))
    less = less_one_double(doubled)
    value = signed(-less / (less + 2.0), x)
    return chosen((size.high < EQUAL) | np.isnan(x.high), x, value)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = |tanh| / cosh^2 is at most 0.385, and at most 4 e^(-2|x|)."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    slope = np.cosh(np.minimum(np.abs(x), 350.0)) ** -2
    return slope, np.minimum(0.385, 4 * np.exp(-2 * near)) * radius**2


def settles(u: float) -> float:
    """Return the argument from which on tanh is 1: 1 - tanh x is less than 2 e^(-2x), which from here on is less than
    2^-10 of a rounding. glibc, torch, NumPy, JAX and CUDA return 1 for all float32 numbers from 12.2 on."""
    return math.log(2.0**11 / u) / 2


FUNCTION = Elementary(
    name="tanh",
    summary="hyperbolic tangent",
    precise=mpmath.tanh,
    double=Certified(double, Bound(36 * V)),
    float64=Certified(float64, Bound(3.1 * U)),
    extended=proportional(double),
    limits=((-math.inf, -1.0), (-0.0, -0.0), (0.0, 0.0), (math.inf, 1.0), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, 0),
    settles=settles,
    hard=(20.0, 19.06, 22.0, 40.0, 2.0**-27, 2.0**-55),
    usual=2.0,
    loose=4.0,
)
