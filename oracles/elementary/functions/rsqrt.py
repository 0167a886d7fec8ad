"""1 / sqrt(x)."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen
from oracles.elementary.elementwise import U, V, of_double, of_float64, scaled_double, tangent_of
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import sqrt


def precise(x: mpf) -> mpf:
    return 1 / mpmath.sqrt(x)


@of_float64
def float64(x: F64) -> F64:
    """Return 1 / sqrt(x), rounded twice; an infinity with the sign of x for zeros, and 0 for infinity."""
    return 1.0 / sqrt.float64(x)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return 1 / sqrt(x): 4 V of the root, 10 V of the division. Zeros give infinities of their sign, infinity 0."""
    half, value = sqrt.root_parts(x)
    return chosen(sqrt.proper(x), scaled_double(1.0 / value, -half), DoubleDouble(1.0 / np.sqrt(x.high)))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    half = x.exponent >> 1
    return ExtendedDouble.of(double(x.in_units_of(2 * half)), -half)


FUNCTION = Elementary(
    name="rsqrt",
    summary="1 / sqrt(value)",
    precise=precise,
    double=Certified(double, Bound(15 * V)),
    float64=Certified(float64, Bound(2.01 * U)),
    extended=extended,
    limits=((-math.inf, math.nan), (-0.0, -math.inf), (0.0, math.inf), (math.inf, 0.0), (math.nan, math.nan)),
    domain=0.0,
    singular=0.0,
    tangent=tangent_of(-0.5),
    farthest=None,
    sign="argument",
    parity="neither",
    reach=lambda least, high: (-high // 2 - 1, 1 - least // 2),
    hard=(1.0, 4.0, 2.0**-1022, 2.0**-1074, 2.0**1023),
    usual=1.0,
    loose=2.0,
    power=-0.5,
    degree=-0.5,
    elasticity=lambda value: -0.5 * value,
    reciprocal_of="sqrt",
)
