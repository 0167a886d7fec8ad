"""What the functions of float64 and of double-double arrays have in common: bits, shapes, blocks, NaN, scaling.

Below and in `functions`, u = 2^-53 is the relative error of one operation in float64, and V = 2^-106 its square: an
operation of `oracles.doubledouble` is off by at most 3 V (sum of two), 2 V (sum with a float64 number), 5 V (product),
10 V (quotient) and 4 V (square root), relative to its result.

Arguments are reduced by tables in steps so small that a short Taylor polynomial is left, whose remainder is known;
terms that cancel or are added last are kept with the rounding error of the step before, so that nearly all of a bound
is the rounding of the last operations. In double-double polynomials are long enough for 2^-105, and only those terms
are in double-double that weigh more than 2^-53 of the result.

Special values are those of IEEE 754: signed zeros, infinities, overflow and gradual underflow, whose cost the absolute
bound states. NaN comes out as the one quiet positive NaN, and the low part of an infinity or a NaN is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble

I64 = NDArray[np.int64]

MAGIC = 1.5 * 2.0**52
"""A number whose neighbours are integers: adding it rounds to the nearest integer."""

MAGIC_BITS = int(np.float64(MAGIC).view(np.int64))

LEAST = 181 / 256
"""The least mantissa: just below the root of 1/2, so that mantissas next to 1 have the exponent 0."""

LEAST_BITS = int(np.float64(LEAST).view(np.int64))

TINY = 2.0**-1022
"""The least normal number."""


def nearest(x: F64) -> tuple[F64, I64]:
    """Return the integers nearest to `x`, ties to even, as float64 and as int64; |x| < 2^51."""
    moved = x + MAGIC
    return moved - MAGIC, moved.view(np.int64) - MAGIC_BITS


def power(exponent: I64) -> F64:
    """Return 2^exponent, for normal numbers."""
    biased: F64 = ((exponent + 1023) << 52).view(np.float64)
    return biased


def scaled(x: F64, exponent: I64) -> F64:
    """Return `x` times 2^exponent, |exponent| <= 1100, rounded once; twice for an |x| below 1/2 with an exponent below
    -1000. The rest of the array decides only whether a factor of 1 is left out."""
    if exponent.size and exponent.min() >= -1000 and exponent.max() <= 1000:
        return x * power(exponent)
    near = np.clip(exponent, -1000, 1000)
    return x * power(near) * power(exponent - near)


def mantissa(x: F64) -> tuple[F64, I64]:
    """Return m in [`LEAST`, 2 `LEAST`) and e such that x = m 2^e; x positive and finite, subnormal numbers too."""
    small = x < TINY
    bits = np.where(small, x * 2.0**54, x).view(np.int64)
    exponent = (bits - LEAST_BITS) >> 52
    return (bits - (exponent << 52)).view(np.float64), exponent - 54 * small


def halves(x: F64) -> tuple[F64, F64]:
    """Return `x`, which is finite, as the sum of its upper 26 bits and the other 27."""
    high: F64 = (x.view(np.int64) & -(1 << 27)).view(np.float64)
    return high, x - high


def polynomial(x: F64, coefficients: Sequence[float | F64]) -> F64:
    """Return the polynomial with these coefficients by Horner's rule; that of x^0 comes first, and there are two at
    least."""
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


U = 2.0**-53
V = 2.0**-106

FLOAT64_BLOCK = 4096
"""Elements that are processed together. Measured, exp of 32,768 elements: 26 ns each in blocks of 2,048, 18 in blocks
of 4,096 and 54 in blocks of 8,192, for which glibc gives back the end of its heap and takes it again; 14 with a higher
trim threshold."""
DOUBLE_BLOCK = 8192
"""Elements that are processed together in double-double. Measured, exp of 32,768 elements: 232 ns each in blocks of
2,048, 189 in blocks of 4,096 and 162 in blocks of 8,192; 213, 149 and 127 with a higher trim threshold of glibc."""


def of_float64(function: Callable[[F64], F64]) -> Callable[[F64], F64]:
    """Return a function for arrays of any shape, in blocks and without NumPy's warnings, from one for (n,) contiguous
    elements."""

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
    """Return a function for double-double arrays of any shape, in blocks and without NumPy's warnings, from one for
    (n,) contiguous elements. That one is given finite low parts."""

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


def tangent_of(power: float) -> Callable[[F64, F64, F64], tuple[F64, F64]]:
    """Return the tangent (see `Elementary.tangent`) of x^power. Half of the second derivative is power (power - 1) / 2
    x^(power - 2), which is largest at the largest x; for a power below 2, at the end next to zero."""
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
    """Return how far powers of numbers between two arguments lie from one of them (see `Elementary.farthest`), of a
    whole exponent. Between arguments of two signs lies zero: the least even power, or a pole."""

    def farthest(low: F64, high: F64, value: F64) -> F64:
        ends = value_at(low), value_at(high)
        both = (low <= 0) & (high >= 0)
        least, most = np.minimum(*ends), np.maximum(*ends)
        least = np.where(both & (power % 2 == 0), np.minimum(least, 0.0), least)
        return np.where(both & (power < 0), np.inf, np.maximum(most - value, value - least))

    return farthest
