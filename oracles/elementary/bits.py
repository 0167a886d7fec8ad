"""Powers of two, mantissas and nearest integers of float64 arrays, by their bits: no function of a C library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64

I64 = NDArray[np.int64]

MAGIC = 1.5 * 2.0**52
"""Numbers next to it are integers: what is added to it is rounded to the nearest one."""

MAGIC_BITS = int(np.float64(MAGIC).view(np.int64))

LEAST = 181 / 256
"""The least mantissa: just below the root of 1/2, so that mantissas next to 1 have the exponent 0."""

LEAST_BITS = int(np.float64(LEAST).view(np.int64))

TINY = 2.0**-1022
"""The least normal number."""


def nearest(x: F64) -> tuple[F64, I64]:
    """The integers nearest to `x`, ties to even, as float64 and as int64; |x| < 2^51."""
    moved = x + MAGIC
    return moved - MAGIC, moved.view(np.int64) - MAGIC_BITS


def power(exponent: I64) -> F64:
    """2^exponent, for normal numbers."""
    biased: F64 = ((exponent + 1023) << 52).view(np.float64)
    return biased


def scaled(x: F64, exponent: I64) -> F64:
    """`x` times 2^exponent, |exponent| <= 1100; rounded once, but for an |x| below 1/2 and an exponent below -1000
    twice.

    What is in the rest of the array only decides whether a factor of 1 is left out."""
    if exponent.size and exponent.min() >= -1000 and exponent.max() <= 1000:
        return x * power(exponent)
    near = np.clip(exponent, -1000, 1000)
    return x * power(near) * power(exponent - near)


def mantissa(x: F64) -> tuple[F64, I64]:
    """m in [`LEAST`, 2 `LEAST`) and e such that x = m 2^e; x positive and finite, subnormal numbers too."""
    small = x < TINY
    bits = np.where(small, x * 2.0**54, x).view(np.int64)
    exponent = (bits - LEAST_BITS) >> 52
    return (bits - (exponent << 52)).view(np.float64), exponent - 54 * small


def halves(x: F64) -> tuple[F64, F64]:
    """`x` as the sum of its upper 26 bits and the other 27; finite."""
    high: F64 = (x.view(np.int64) & -(1 << 27)).view(np.float64)
    return high, x - high


def polynomial(x: F64, coefficients: Sequence[float | F64]) -> F64:
    """The polynomial with these coefficients, that of x^0 first and two at least, by Horner's rule."""
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value
