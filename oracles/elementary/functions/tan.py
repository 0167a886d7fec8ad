"""Tangent."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, chosen, proportional
from oracles.elementary.elementwise import U, V, of_double, of_float64
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary
from oracles.elementary.functions.sin import EQUAL, HARD, NEAR_POLES, turned, turned_double


@of_float64
def float64(x: F64) -> F64:
    """Return the sine over the cosine, each of which is off by 1.7 u; the division adds u: 4.4 u."""
    return turned(x, 0) / turned(x, 1)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the sine over the cosine: 22.5 V each, and 10 V of the division: 55 V.

    Next to a pole the cosine is off by 2^-224 more. About one number of double-double is expected within 2^-118 of a
    pole, so that this is less than 2^-106 of any cosine that can be met."""
    value = turned_double(x, 0, NEAR_POLES) / turned_double(x, 1, NEAR_POLES)
    return chosen(np.abs(x.high) < EQUAL, x, value)


def apart(x: F64) -> F64:
    """Return the distance from the nearest pole, whose tangent is 1 / |tan x|."""
    return np.arctan2(1.0, np.abs(np.tan(x)))


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = |tan| (1 + tan^2), and |tan| is at most 1 / d at a distance d from the
    nearest pole."""
    near = np.arctan2(1.0, np.abs(value)) - radius
    most = 1 / np.maximum(near, 0.0)
    return 1.0 + value**2, np.where(near > 0, most * (1.0 + most**2) * radius**2, np.inf)


def farthest(low: F64, high: F64, value: F64) -> F64:
    """Return the largest distance from a value: it is at an end, unless a pole lies between the ends."""
    away = np.maximum(np.abs(float64(low) - value), np.abs(float64(high) - value))
    return np.where(FUNCTION.meets(low, high) | np.isnan(away), np.inf, away)


FUNCTION = Elementary(
    name="tan",
    summary="tangent of radians",
    precise=mpmath.tan,
    double=Certified(double, Bound(56 * V)),
    float64=Certified(float64, Bound(4.5 * U)),
    extended=proportional(double),
    limits=((-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.nan), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    apart=apart,
    tangent=tangent,
    farthest=farthest,
    sign="any",
    parity="odd",
    reach=lambda least, high: (LEAST_BINADE, 64),
    hard=(*HARD, math.pi / 2, -3 * math.pi / 2),
    usual=4.0,
    loose=6.0,
)
