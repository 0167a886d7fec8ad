"""Square root."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen, root
from oracles.elementary import CORRECT
from oracles.elementary.elementwise import I64, U, V, mantissa, of_double, of_float64, scaled_double, tangent_of
from oracles.elementary.function import Bound, Certified, Elementary


@of_float64
def float64(x: F64) -> F64:
    """Return the square root, correctly rounded; NaN for negative numbers, -0 for -0."""
    return np.sqrt(x)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the square root, at all magnitudes; NaN for negative numbers, -0 for -0."""
    half, value = root_parts(x)
    return chosen(proper(x), scaled_double(value, half), DoubleDouble(np.where(x.high < 0, np.nan, x.high)))


def root_parts(x: DoubleDouble) -> tuple[I64, DoubleDouble]:
    """Return e and a root between 0.8 and 1.7 such that x = root^2 2^(2e); those of 1 for x that is not `proper`."""
    x = chosen(proper(x), x, DoubleDouble(np.ones_like(x.high)))
    half = mantissa(x.high)[1] >> 1
    return half, root(scaled_double(x, -2 * half))


def proper(x: DoubleDouble) -> NDArray[np.bool_]:
    """Return where x is positive and finite."""
    return (x.high > 0) & (x.high < np.inf)


def extended(x: ExtendedDouble) -> ExtendedDouble:
    half = x.exponent >> 1
    return ExtendedDouble.of(double(x.in_units_of(2 * half)), half)


FUNCTION = Elementary(
    name="sqrt",
    summary="square root",
    precise=mpmath.sqrt,
    double=Certified(double, Bound(4 * V)),
    float64=Certified(float64, Bound(U)),
    extended=extended,
    limits=((-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=0.0,
    singular=0.0,
    tangent=tangent_of(0.5),
    farthest=None,
    sign="argument",
    parity="neither",
    reach=lambda least, high: (least // 2, -(-high // 2)),
    hard=(1.0, 4.0, 2.0**-1022, 2.0**-1074, 2.0**1023),
    usual=CORRECT,
    loose=1.5,
    power=0.5,
    degree=0.5,
    elasticity=lambda value: 0.5 * value,
)
