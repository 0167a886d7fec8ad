"""Common parts of the functions of float64 and double-double arrays: bits, shapes, blocks, NaN, scaling.

Docstrings here and in `functions` prove error bounds. In them u = 2^-53 is the relative error of one operation in
float64, and V = 2^-106 its square. An operation of `oracles.doubledouble` has a relative error of at most 3 V (sum of
two), 2 V (sum with a float64), 5 V (product), 10 V (quotient), 4 V (square root). A value that "is off by" or "carries"
2 u has a relative error of up to 2 u; a step that "adds" u enlarges the error of the result; the last number is the
function's bound.

Arguments are reduced by tables in steps so small that a short Taylor polynomial is left, whose remainder is known.
Terms that cancel or are added last keep the rounding error of the step before as a second number, so that most of a
bound comes from the last operations. In double-double, polynomials reach 2^-105; only terms above 2^-53 of the result
are in double-double.

Special values are those of IEEE 754: signed zeros, infinities, overflow and gradual underflow, whose error the absolute
bound includes. Every NaN becomes one quiet positive NaN, and the low part of an infinity or a NaN is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble

I64 = NDArray[np.int64]

MAGIC = 1.5 * 2.0**52
"""A number with a spacing of 1 around it: adding it rounds a small number to the nearest integer."""

MAGIC_BITS = int(np.float64(MAGIC).view(np.int64))

LEAST = 181 / 256
"""The least mantissa: just below the root of 1/2, so that mantissas next to 1 have the exponent 0."""

LEAST_BITS = int(np.float64(LEAST).view(np.int64))

TINY = 2.0**-1022
"""The smallest positive normal number."""


def nearest(x: F64) -> tuple[F64, I64]:
    """Return the integers nearest to `x`, ties to even, as float64 and as int64; |x| < 2^51."""
    moved = x + MAGIC
    return moved - MAGIC, moved.view(np.int64) - MAGIC_BITS


def power(exponent: I64) -> F64:
    """Return 2^exponent, for normal numbers."""
    biased: F64 = ((exponent + 1023) << 52).view(np.float64)
    return biased


def scaled(x: F64, exponent: I64) -> F64:
    """Return `x` times 2^exponent, |exponent| <= 1100, rounded once; rounded twice if |x| < 1/2 and the exponent is
    below -1000. An element's result does not depend on other elements."""
    if exponent.size and exponent.min() >= -1000 and exponent.max() <= 1000:
        return x * power(exponent)
    near = np.clip(exponent, -1000, 1000)
    return x * power(near) * power(exponent - near)


def mantissa(x: F64) -> tuple[F64, I64]:
    """Return m in [`LEAST`, 2 `LEAST`) and e such that x = m 2^e, for positive finite x, which may be subnormal."""
    small = x < TINY
    bits = np.where(small, x * 2.0**54, x).view(np.int64)
    exponent = (bits - LEAST_BITS) >> 52
    return (bits - (exponent << 52)).view(np.float64), exponent - 54 * small


def halves(x: F64) -> tuple[F64, F64]:
    """Return finite `x` as two numbers whose sum is x: its upper 26 bits, and the other 27."""
    high: F64 = (x.view(np.int64) & -(1 << 27)).view(np.float64)
    return high, x - high


def polynomial(x: F64, coefficients: Sequence[float | F64]) -> F64:
    """Return the values of a polynomial at x by Horner's rule. At least two coefficients, that of x^0 first."""
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


U = 2.0**-53
V = 2.0**-106

FLOAT64_BLOCK = 4096
"""The number of elements that are processed together. Measured for exp of 32,768 elements: 26 ns each in blocks of
2,048, 18 ns in blocks of 4,096, and 54 ns in blocks of 8,192, for which glibc repeatedly returns the end of its heap to
the system; 14 ns with a higher trim threshold."""
DOUBLE_BLOCK = 8192
"""The number of elements that are processed together in double-double. Measured for exp of 32,768 elements: 232 ns each
in blocks of 2,048, 189 ns in 4,096 and 162 ns in 8,192; 213, 149 and 127 ns with a higher trim threshold of glibc."""


def of_float64(function: Callable[[F64], F64]) -> Callable[[F64], F64]:
    """Return a function for float64 arrays of any shape from one for contiguous arrays of shape (n,), which it calls in
    blocks and without warnings of NumPy."""

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
    """Return a function for double-double arrays of any shape from one for contiguous arrays of shape (n,), which it
    calls in blocks, with finite low parts, and without warnings of NumPy."""

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


def rounded(double: Callable[[DoubleDouble], DoubleDouble]) -> Callable[[F64], F64]:
    """Return a function for float64 arrays whose results are those of a double-double function, rounded. This adds u,
    besides which the error in double-double is less than 0.01 u."""
    return lambda x: double(DoubleDouble(x)).high


def scaled_double(x: DoubleDouble, exponent: I64) -> DoubleDouble:
    """Return `x` times 2^exponent, its parts added again: underflow may make the low part half a unit of the high."""
    high, low = scaled(x.high, exponent), scaled(x.low, exponent)
    total = high + low
    return DoubleDouble(total, low - (total - high))


def signed(x: DoubleDouble, like: DoubleDouble) -> DoubleDouble:
    """Return `x` or -x, by the sign of `like`."""
    sign = np.copysign(1.0, like.high)
    return DoubleDouble(sign * x.high, sign * x.low)


def tangent_of(power: float) -> Callable[[F64, F64, F64], tuple[F64, F64]]:
    """Return the function `Elementary.tangent` of x^power. Half of the second derivative is power (power - 1) / 2
    x^(power - 2), which is largest at the largest |x|, or for a power below 2 at the end next to zero."""
    half = abs(power * (power - 1.0)) / 2.0

    def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
        size, p = np.abs(x), radius / np.abs(x)
        slope = power * value / x
        if power >= 2.0:
            return np.where(x == 0, 0.0, slope), half * radius**2 * (size + radius) ** (power - 2.0)
        inside = np.maximum(1.0 - p, 0.0)
        return slope, np.where(p < 1, half * np.abs(value) * p**2 * inside ** (power - 2.0), np.inf)

    return tangent


def farthest_of(value_at: Callable[[F64], F64], power: float) -> Callable[[F64, F64, F64], F64]:
    """Return the function `Elementary.farthest` of x^power for a whole power. If the two arguments have different
    signs, 0 lies between them, where an even power is least, or a negative power has a pole."""

    def farthest(low: F64, high: F64, value: F64) -> F64:
        ends = value_at(low), value_at(high)
        both = (low <= 0) & (high >= 0)
        least, most = np.minimum(*ends), np.maximum(*ends)
        least = np.where(both & (power % 2 == 0), np.minimum(least, 0.0), least)
        return np.where(both & (power < 0), np.inf, np.maximum(most - value, value - least))

    return farthest
