"""Elementary functions of float64 arrays of any shape, with bounds of their errors in `BOUNDS`.

Arguments are reduced by tables in steps so small that a short Taylor polynomial is left, whose remainder is known; what
cancels or is added last is kept with the rounding error of the step before it, so that nearly all of a bound is the
rounding of the last operations. Below, u = 2^-53 is the relative error of one operation. Special values are those of
IEEE 754: signed zeros, infinities, overflow and gradual underflow. NaN comes out as the one quiet positive NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import numpy as np

from oracles.doubledouble import F64, two_sum
from oracles.elementary import Bound
from oracles.elementary.bits import I64, halves, mantissa, nearest, polynomial, scaled
from oracles.elementary.quadrants import SINGLE, reduced
from oracles.elementary.tables import CELLS, FARTHEST, STEP_BITS, STEPS, erf_cells, logarithms, powers

U = 2.0**-53

BLOCK = 4096
"""Elements that are worked on together. Measured, exp of 32,768 elements: 26 ns each in blocks of 2,048, 18 of 4,096
and 54 of 8,192, for which glibc returns the end of its heap and takes it again; 14 where its trim threshold is
higher."""

BOUNDS = {
    "exp": Bound(1.01 * U, 2.0**-1074),
    "log": Bound(1.01 * U),
    "tanh": Bound(3.1 * U),
    "sigmoid": Bound(3.1 * U, 2.0**-1074),
    "erf": Bound(5.3 * U, 2.0**-1074),
    "sin": Bound(1.7 * U),
    "cos": Bound(1.7 * U),
    "sqrt": Bound(U),
    "rsqrt": Bound(2.01 * U),
}
"""What each function may be off by; where it comes from stands at each function."""

LARGEST_EXP = 710.0
"""exp of it overflows."""

LEAST_EXP = -746.0
"""exp of it is below 2^-1076, hence rounds to zero."""

ERF_TERMS = 9
"""Coefficients of erf that are taken, of h^0 to h^8."""


def elementwise(function: Callable[[F64], F64]) -> Callable[[F64], F64]:
    """Lets a function of (n,) contiguous elements have arrays of any shape, in blocks, with no warnings of NumPy's."""

    @wraps(function)
    def applied(x: F64) -> F64:
        flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
        result = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, BLOCK):
                result[start : start + BLOCK] = function(flat[start : start + BLOCK])
        result[np.isnan(result)] = np.nan
        return result.reshape(np.shape(x))

    return applied


@elementwise
def exp(x: F64) -> F64:
    """e^x = 2^m T (1 + q), with T = 2^(j/1024) from a table and q = e^r - 1, |r| < 2^-11.5.

    r = (x - n L1) - n L2 is off by 1.01 * 2^-65: its own rounding, as the first difference is exact. That of q is as
    large, the remainder r^5/120 is 1.4 * 2^-65, and T q and its sum with the low part of T add 1.42 * 2^-65 each: 0.002
    u in all. The last sum adds u, scaling a subnormal result half of 2^-1074."""
    table = powers()
    exponent, index, r, _ = _steps(np.clip(x, LEAST_EXP, LARGEST_EXP))
    q = r + r * r * polynomial(r, EXP)
    high = table.value.high[index]
    return scaled(high + (table.value.low[index] + high * q), exponent)


EXP = [1 / math.factorial(k) for k in range(2, 5)]
"""Taylor coefficients of (e^r - 1 - r) / r^2."""


def _steps(x: F64) -> tuple[I64, I64, F64, F64]:
    """(n,) each: m, the table's index of j, and r and its rounding error, of x = (m + j/1024) log 2 + r."""
    table = powers()
    steps, number = nearest(x * table.steps_per_unit)
    first = x - steps * table.step[0]
    second = steps * (table.step[1] + table.step[2])
    r = first - second
    number += STEPS // 2
    return number >> STEP_BITS, number & (STEPS - 1), r, (first - r) - second


def _exp_less_one(x: F64) -> F64:
    """e^x - 1 for -40 <= x <= 0, within 1.01 u.

    With A = 2^m T - 1 it is A + q + A q. A + r is taken without error; what is left, with the roundings of r and A, is
    at most 2^-10 of the result and carries at most 8 u."""
    table = powers()
    exponent, index, r, r_low = _steps(x)
    scale = scaled(np.ones_like(x), exponent)
    a = two_sum(scale * table.value.high[index], np.full_like(x, -1.0))
    p = r * r * polynomial(r, EXP_LONGER)
    whole = two_sum(a.high, r)
    return whole.high + (whole.low + ((r_low + p + a.high * (r + p)) + (a.low + scale * table.value.low[index])))


EXP_LONGER = [1 / math.factorial(k) for k in range(2, 6)]
"""One more of `EXP`, for a remainder small beside r."""


@elementwise
def log(x: F64) -> F64:
    """log x = e log 2 - log c + log(1 + r) for x = m 2^e and r = m c - 1, |r| < 2^-10.4; c of 16 bits from a table.

    r is exact in two numbers, and so are the multiple of 2^-42 that is next to e log 2 - log c and its sum with r. What
    is added to that, the rest of both and the polynomial, is at most 2^-11 of the result and carries at most 8 u; next
    to x = 1 it is c = 1 and e = 0. The remainder r^7/7 is 2^-64.6 of the result. The last sum adds u."""
    table = logarithms()
    inside = (x > 0) & (x < np.inf)
    m, exponent = mantissa(np.where(inside, x, 1.0))
    index = nearest(m * STEPS)[1] - table.start
    c = table.reciprocal[index]
    high, low = halves(m)
    r = two_sum(high * c - 1.0, low * c)
    e = exponent.astype(np.float64)
    whole = two_sum(e * table.two[0] + table.coarse[index], r.high)
    rest = r.high * r.high * polynomial(r.high, LOG) + (r.low + (table.rest[index] + e * table.two[1]))
    outside = np.where(x == 0, -np.inf, np.where(x > 0, np.inf, np.nan))
    return np.where(inside, whole.high + (whole.low + rest), outside)


LOG = [(-1) ** (k + 1) / k for k in range(2, 7)]
"""Taylor coefficients of (log(1 + r) - r) / r^2."""


@elementwise
def tanh(x: F64) -> F64:
    """tanh x = -E / (2 + E) with E = e^(-2|x|) - 1, and the sign of x.

    With E off by 1.01 u (half that from |E| = 1/2 on, where it has a fixed unit) the quotient is off by 2 / (2 + E)
    times it: at most 1.35 u; 2 + E and the division add u / (2 + E) and u. In all at most 3.03 u."""
    less = _exp_less_one(np.maximum(-2.0 * np.abs(x), -40.0))
    return np.copysign(less / (2.0 + less), x)


@elementwise
def sigmoid(x: F64) -> F64:
    """1 / (1 + e^-x) = 1 / (1 + e) for x >= 0 and e / (1 + e) below, with e = e^-|x|, which never overflows.

    e adds 1.01 u, the sum u, the division u; below -708 the underflow of e and of the quotient half of 2^-1074 each."""
    e = exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


@elementwise
def erf(x: F64) -> F64:
    """erf(c + h) by its Taylor polynomial at the next c = j/64, |h| <= 2^-7, h exact; with the sign of x.

    By Cramer's inequality for Hermite functions the coefficient of h^9 is below 0.011 anywhere, so that the remainder
    is below 2^-62 of the result. For j = 1, where all weighs most, h B = h (a1 + h (...)) is off by 3.01 u (a1, B, the
    product) and at most 1.01 times the result; its sum with the low part of a0 and the last one add u each: 5.1 u."""
    cells = erf_cells()
    size = np.where(np.abs(x) < FARTHEST, np.abs(x), FARTHEST)
    centre, index = nearest(size * CELLS)
    h = size - centre / CELLS
    slope = polynomial(h, [cells[k].high[index] for k in range(1, ERF_TERMS)])
    value = np.copysign(cells[0].high[index] + (cells[0].low[index] + h * slope), x)
    return np.where(np.isnan(x), x, value)


@elementwise
def sin(x: F64) -> F64:
    """The sine of `x` radians, for every finite x; NaN of an infinite one. See `_turned`."""
    return _turned(x, 0)


@elementwise
def cos(x: F64) -> F64:
    """The cosine of `x` radians, for every finite x; NaN of an infinite one. See `_turned`."""
    return _turned(x, 1)


def _turned(x: F64, quarter: int) -> F64:
    """sin(x + quarter pi/2), by the Taylor polynomials of sine and cosine of what `quadrants` leaves, r within pi/4.

    Sine: beside r stands at most 0.115 of the result, off by 4.1 u; its sum with the low part of r adds 0.12 u, what
    that part lacks of its cosine and the remainder 0.02 u, the last sum u: 1.65 u with the reduction's 0.02 u. Cosine:
    1 - r^2/2 is kept without error but for r^2, 0.36 u of the result; the other terms are 0.03 of it and off by 4 u,
    the low part of r lacks 0.06 u of its sine, the last sum adds u: 1.6 u."""
    finite = np.isfinite(x)
    quarters, rest = reduced([np.where(finite, x, 0.0)], SINGLE)
    r, low = rest.high, rest.low
    quarters += quarter
    square = r * r
    half = 0.5 * square
    near = 1.0 - half
    sine = r + (low * near + r * (square * polynomial(square, SINE)))
    cosine = near + (((1.0 - near) - half) + (square * (square * polynomial(square, COSINE)) - r * low))
    size = np.where(quarters & 1, cosine, sine)
    result = np.where(quarters & 2, -size, size)
    if quarter == 0:
        result = np.where(np.abs(x) < 2.0**-27, x, result)
    return np.where(finite, result, np.nan)


SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
"""Taylor coefficients of (sin r - r) / r^3, in r^2."""

COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(2, 10)]
"""Taylor coefficients of (cos r - 1 + r^2/2) / r^4, in r^2."""


@elementwise
def sqrt(x: F64) -> F64:
    """The square root, correctly rounded; NaN below zero, -0 of -0."""
    return np.sqrt(x)


@elementwise
def rsqrt(x: F64) -> F64:
    """1 / sqrt(x): two roundings; infinity of 0, with its sign, and 0 of infinity."""
    return 1.0 / sqrt(x)
