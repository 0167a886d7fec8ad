"""Cosine."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, ordinary
from oracles.elementary.elementwise import of_double, of_float64
from oracles.elementary.function import LEAST_BINADE, Certified, Elementary
from oracles.elementary.functions.sin import DOUBLE_BOUND, FLOAT64_BOUND, HARD, farthest, turned, turned_double


@of_float64
def float64(x: F64) -> F64:
    """Return the cosine of `x` radians, for every finite x; NaN for an infinite one. See `turned`."""
    return turned(x, 1)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the cosine of `x` radians, for every finite x; NaN for an infinite one. See `turned_double`."""
    return turned_double(x, 1)


FUNCTION = Elementary(
    name="cos",
    summary="cosine of radians",
    precise=mpmath.cos,
    double=Certified(double, DOUBLE_BOUND),
    float64=Certified(float64, FLOAT64_BOUND),
    extended=ordinary(double),
    limits=((-math.inf, math.nan), (-0.0, 1.0), (0.0, 1.0), (math.inf, math.nan), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=lambda x, value, radius: (-np.sin(x), radius**2 / 2),
    farthest=farthest,
    sign="any",
    parity="even",
    reach=lambda least, high: (LEAST_BINADE, 0),
    hard=HARD,
    usual=2.0,
    loose=4.0,
)
