"""What the functions of float64 and of double-double arrays have in common: shapes, blocks, NaN, scaling.

Below and in `functions`, u = 2^-53 is the relative error of one operation in float64, and V = 2^-106 its square: an
operation of `oracles.doubledouble` is off by at most 3 V (sum of two), 2 V (sum with a float64 number), 5 V (product),
10 V (quotient) and 4 V (square root), relative to its result.

Arguments are reduced by tables in steps so small that a short Taylor polynomial is left, whose remainder is known; what
cancels or is added last is kept with the rounding error of the step before it, so that nearly all of a bound is the
rounding of the last operations. In double-double polynomials are long enough for 2^-105, and only those terms are in
double-double that weigh more than 2^-53 of the result. Special values are those of IEEE 754: signed zeros, infinities,
overflow and gradual underflow, where the absolute bound says what that costs. NaN comes out as the one quiet positive
NaN, and the low part of what is infinite or NaN is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from oracles.doubledouble import F64, DoubleDouble
from oracles.elementary.bits import I64, scaled

U = 2.0**-53
V = 2.0**-106

FLOAT64_BLOCK = 4096
"""Elements that are worked on together. Measured, exp of 32,768 elements: 26 ns each in blocks of 2,048, 18 of 4,096
and 54 of 8,192, for which glibc returns the end of its heap and takes it again; 14 where its trim threshold is
higher."""
DOUBLE_BLOCK = 8192
"""The same in double-double. Measured, exp of 32,768 elements: 232 ns each in blocks of 2,048, 189 of 4,096 and 162 of
8,192; 213, 149 and 127 where glibc's trim threshold is higher."""


def of_float64(function: Callable[[F64], F64]) -> Callable[[F64], F64]:
    """Let a function of (n,) contiguous elements have arrays of any shape, in blocks, with no warnings of NumPy's."""

    @wraps(function)
    def applied(x: F64) -> F64:
        flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
        result = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, FLOAT64_BLOCK):
                result[start : start + FLOAT64_BLOCK] = function(flat[start : start + FLOAT64_BLOCK])
        result[np.isnan(result)] = np.nan
        return result.reshape(np.shape(x))

    return applied


def of_double(function: Callable[[DoubleDouble], DoubleDouble]) -> Callable[[DoubleDouble], DoubleDouble]:
    """Let a function of (n,) contiguous elements have double-double arrays of any shape, in blocks, with no warnings of
    NumPy's. The function is given finite low parts."""

    @wraps(function)
    def applied(x: DoubleDouble) -> DoubleDouble:
        high = np.ascontiguousarray(x.high).reshape(-1)
        low = np.where(np.isfinite(high), np.ascontiguousarray(x.low).reshape(-1), 0.0)
        result = DoubleDouble(np.empty_like(high), np.empty_like(high))
        with np.errstate(all="ignore"):
            for start in range(0, high.size, DOUBLE_BLOCK):
                block = slice(start, start + DOUBLE_BLOCK)
                value = function(DoubleDouble(high[block], low[block]))
                result.high[block], result.low[block] = value.high, value.low
        result.high[np.isnan(result.high)] = np.nan
        result.low[~np.isfinite(result.high)] = 0.0
        return DoubleDouble(result.high.reshape(x.shape), result.low.reshape(x.shape))

    return applied


def scaled_double(x: DoubleDouble, exponent: I64) -> DoubleDouble:
    """Return `x` times 2^exponent, added again: a low part that underflows may become half a unit of the high one."""
    high, low = scaled(x.high, exponent), scaled(x.low, exponent)
    total = high + low
    return DoubleDouble(total, low - (total - high))


def signed(x: DoubleDouble, like: DoubleDouble) -> DoubleDouble:
    """Return `x` or -x, by the sign of `like`."""
    sign = np.copysign(1.0, like.high)
    return DoubleDouble(sign * x.high, sign * x.low)
