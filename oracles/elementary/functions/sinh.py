"""Hyperbolic sine, and what it shares with the hyperbolic cosine."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary.elementwise import U, V, of_double, rounded, scaled_double, signed
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import exp, expm1
from oracles.elementary.functions.tanh import EQUAL

FAR = 40.0
"""The magnitude of x from which on sinh x and cosh x are e^|x| / 2 within 2^-9 V."""


def precise(x: mpf) -> mpf:
    return mpmath.sinh(x) if abs(x) < 2 * FAR else mpmath.sign(x) * exp.precise(abs(x)) / 2


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return (E + E / (1 + E)) / 2 with E = e^|x| - 1, and the sign of x. E is off by 24 V, of which the sum passes on
    at most as much; E / (1 + E), at most half of the sum, adds 12 V of itself, and the sum 3 V: 33 V."""
    size = absolute(x)
    less = expm1.double(chosen(size.high < FAR, size, DoubleDouble(np.zeros_like(size.high))))
    both = less + less / (less + 1.0)
    value = chosen(size.high < FAR, DoubleDouble(both.high / 2, both.low / 2), half_of_power(size))
    return chosen((size.high < EQUAL) | np.isnan(x.high), x, signed(value, x))


def half_of_power(size: DoubleDouble) -> DoubleDouble:
    """Return e^x / 2 for x >= 0 within 5 V, infinite from 711 on."""
    exponent, a = exp.parts(chosen(size.high < 712.0, size, DoubleDouble(np.full_like(size.high, 712.0))))
    return scaled_double(a + 1.0, exponent - 1)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    """Return sinh x: x below 2^-900, and half of a power of e from `FAR` on, with the sign of x."""
    near = whichever(x.exponent < -ORDINARY, x, ExtendedDouble.of(double(x.doubled)))
    sign = np.copysign(1.0, x.fraction.high)
    size = ExtendedDouble(DoubleDouble(sign * x.fraction.high, sign * x.fraction.low), x.exponent)
    far = exp.extended(size) * ExtendedDouble.of(DoubleDouble(sign / 2))
    return whichever(size.doubled.high > FAR, far, near)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = sinh |x| / 2, which grows with |x|."""
    return np.cosh(x), np.where(radius == 0, 0.0, np.sinh(np.abs(x) + radius) / 2 * radius**2)


HARD = (0.3466, 2.0**-55, 2.0**-27, 22.0, 40.0, 88.7, 709.78, 710.4758, -710.47586, 2.0**-1022)

FUNCTION = Elementary(
    name="sinh",
    summary="hyperbolic sine",
    precise=precise,
    double=Certified(double, Bound(34 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=extended,
    limits=((-math.inf, -math.inf), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, exp.reach(least, high)[1]),
    hard=HARD,
    usual=3.0,
    loose=6.0,
)
