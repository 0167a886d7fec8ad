"""Inverse hyperbolic tangent."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, absolute, chosen, proportional
from oracles.elementary.elementwise import U, V, of_double, rounded, signed
from oracles.elementary.function import Bound, Certified, Elementary
from oracles.elementary.functions import asin, log1p
from oracles.elementary.functions.asinh import EQUAL


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return log(1 + t) / 2 with t = 2 |x| / (1 - |x|), and the sign of x. 1 - |x| is off by 2 V, the quotient by 12 V,
    of which the logarithm passes on at most as much; it adds 34 V: 46 V."""
    size = absolute(x)
    value = log1p.double(DoubleDouble(2.0 * size.high, 2.0 * size.low) / (1.0 - size))
    value = signed(DoubleDouble(value.high / 2, value.low / 2), x)
    return chosen(size.high < EQUAL, x, value)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| / 2 = |x| / (1 - x^2)^2, which grows with |x|."""
    most = np.abs(x) + radius
    below = np.maximum(1.0 - most, 0.0)
    bound = most * (below * (1.0 + most)) ** -2 * radius**2
    return 1.0 / ((1.0 - x) * (1.0 + x)), np.where(below > 0, bound, np.inf)


FUNCTION = Elementary(
    name="atanh",
    summary="inverse hyperbolic tangent",
    precise=mpmath.atanh,
    double=Certified(double, Bound(47 * V)),
    float64=Certified(rounded(double), Bound(1.01 * U)),
    extended=proportional(double),
    limits=(
        (-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.nan), (math.nan, math.nan),
        (-1.0, -math.inf), (1.0, math.inf),
    ),
    domain=-1.0,
    top=1.0,
    singular=None,
    apart=asin.apart,
    tangent=tangent,
    farthest=None,
    sign="argument",
    parity="odd",
    reach=lambda least, high: (min(least, 0) - 1, 5),
    hard=asin.HARD,
    usual=3.0,
    loose=6.0,
)  # fmt: skip
