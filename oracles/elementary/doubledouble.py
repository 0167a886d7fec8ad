"""Elementary functions of double-double arrays of any shape, with bounds of their errors in `BOUNDS`.

The methods are those of `float64`, with Taylor polynomials long enough for 2^-105 and only those terms in double-double
that weigh more than 2^-53 of the result; the others need no more than float64. Below, V = 2^-106 is the square of a
float64 roundoff: an operation of `oracles.doubledouble` is off by at most 3 V (sum of two), 2 V (sum with a float64
number), 5 V (product), 10 V (quotient) and 4 V (square root), relative to its result. Special values are those of IEEE
754, with 0 as the low part of what is infinite or NaN. Where a result or its low part underflows, the absolute bound
says what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import LOST, DoubleDouble, absolute, chosen, plus, root, two_sum
from oracles.elementary import Bound
from oracles.elementary.bits import I64, halves, mantissa, nearest, polynomial, power, scaled
from oracles.elementary.quadrants import DOUBLE, reduced
from oracles.elementary.tables import (
    ANGLES,
    CELLS,
    FARTHEST,
    STEP_BITS,
    STEPS,
    erf_cells,
    logarithms,
    powers,
    ratio,
    turns,
)

V = 2.0**-106

BLOCK = 8192
"""Elements that are worked on together. Measured, exp of 32,768 elements: 232 ns each in blocks of 2,048, 189 of 4,096
and 162 of 8,192; 213, 149 and 127 where glibc's trim threshold is higher."""

BOUNDS = {
    "exp": Bound(5 * V, 2.0**-1073),
    "log": Bound(24 * V, 4 * LOST),
    "tanh": Bound(36 * V),
    "sigmoid": Bound(18 * V, 2 * LOST),
    "erf": Bound(16 * V, 2 * LOST),
    "sin": Bound(24 * V, 2.0**-182),
    "cos": Bound(24 * V, 2.0**-182),
    "sqrt": Bound(4 * V),
    "rsqrt": Bound(15 * V),
}
"""What each function may be off by; where it comes from stands at each function."""

LARGEST_EXP = 710.0
"""exp of it overflows."""

LEAST_EXP = -746.0
"""exp of it is below 2^-1076, hence rounds to zero."""

EQUAL = 2.0**-55
"""Below it sin x and tanh x are x, within V/32."""


def elementwise(function: Callable[[DoubleDouble], DoubleDouble]) -> Callable[[DoubleDouble], DoubleDouble]:
    """Lets a function of (n,) contiguous elements have arrays of any shape, in blocks, with no warnings of NumPy's.

    The function is given finite low parts."""

    @wraps(function)
    def applied(x: DoubleDouble) -> DoubleDouble:
        high = np.ascontiguousarray(x.high).reshape(-1)
        low = np.where(np.isfinite(high), np.ascontiguousarray(x.low).reshape(-1), 0.0)
        result = DoubleDouble(np.empty_like(high), np.empty_like(high))
        with np.errstate(all="ignore"):
            for start in range(0, high.size, BLOCK):
                block = slice(start, start + BLOCK)
                value = function(DoubleDouble(high[block], low[block]))
                result.high[block], result.low[block] = value.high, value.low
        result.high[np.isnan(result.high)] = np.nan
        result.low[~np.isfinite(result.high)] = 0.0
        return DoubleDouble(result.high.reshape(x.shape), result.low.reshape(x.shape))

    return applied


@elementwise
def exp(x: DoubleDouble) -> DoubleDouble:
    """e^x = 2^m (1 + a), see `exp_parts`.

    r is off by 0.4 V, t by 0.5 V of itself, the sums of a by 3.1 V of it, and |a| is at most 0.42 of 1 + a; the last
    sum adds 2 V: 4.3 V. Below -670 the low part underflows, below -708 both do: half of 2^-1074 for each of two
    roundings."""
    inside = (x.high > LEAST_EXP) & (x.high < LARGEST_EXP)
    limit = np.where(x.high > 0, LARGEST_EXP, LEAST_EXP)
    exponent, a = exp_parts(chosen(inside, x, DoubleDouble(limit)))
    value = _scaled(a + 1.0, exponent)
    return chosen(np.isnan(x.high), x, value)


def exp_parts(x: DoubleDouble) -> tuple[I64, DoubleDouble]:
    """m and a, with e^x = 2^m (1 + a) and -0.3 < a < 0.42.

    a = t + q + t q, with t = 2^(j/1024) - 1 from a table and q = e^r - 1 for r = ((x.high - n L1) - n L2) + (x.low - n
    L3), |r| < 2^-11.5: all is exact but n L3, below 2^-54, and the last sum. The remainder of q is r^9/9! < 2^-110 r.

    For m = 0, a is within 20 V of itself: r carries 3 V, q and q + t q 3.1 V more each, t 0.5 V. That is all there is
    for n = 0, with 3 V for a sum with 0; for n = 1 or -1, |q| is at most |a| and |t| at most 2 |a|, so that t + q adds
    9 V; beyond, all weigh less."""
    table = powers()
    steps, number = nearest(x.high * table.steps_per_unit)
    first, second, third = table.step
    r = two_sum(x.high - steps * first, -steps * second) + two_sum(x.low, -steps * third)
    number += STEPS // 2
    t = table.less_one[number & (STEPS - 1)]
    series = r.high * polynomial(r.high, EXP) + ratio(1, 24)
    q = plus(r, r * r * plus(ratio(1, 2), plus(ratio(1, 6), series * r) * r))
    return number >> STEP_BITS, plus(t, plus(q, q * t))


EXP = [1 / math.factorial(k) for k in range(5, 9)]
"""Taylor coefficients of e^r, of r^5 and on."""


@elementwise
def log(x: DoubleDouble) -> DoubleDouble:
    """log x = e log 2 - log c + log(1 + r) for x = m 2^e, r = m c - 1, |r| < 2^-10.4; c of 16 bits from a table.

    log(1 + r) = 2 artanh(r / (2 + r)) = 2 s (1 + s^2/3 + ... + s^8/9), with a remainder below 2^-117. The products of r
    are exact and r carries 3 V, 2 + r 2 V, their quotient s 15 V, its last sum 3.1 V: 18.2 V. For e = 0, |log(1 + r)|
    is at most the result and |log c| twice the result: 18.2 V, 0.5 V each, and 3 V of the last sum, 22.2 V. Else e log
    2 - log c is off by 15 V of itself, as |e log 2| is at most twice it, and log(1 + r) is small. Where x is 1 and a
    low part next to 2^-1074, the quotient underflows."""
    table = logarithms()
    inside = (x.high > 0) & (x.high < np.inf)
    m, exponent = mantissa(np.where(inside, x.high, 1.0))
    index = nearest(m * STEPS)[1] - table.start
    c = table.reciprocal[index]
    high, low = halves(m)
    rest, least = halves(scaled(np.where(inside, x.low, 0.0), -exponent))
    r = two_sum(high * c - 1.0, low * c) + two_sum(rest * c, least * c)
    s = r / (r + 2.0)
    square = s * s
    series = square.high * polynomial(square.high, LOG) + ratio(1, 5)
    half = plus(s, s * (square * plus(ratio(1, 3), series * square)))
    value = plus(table.log_two * exponent.astype(np.float64), table.value[index])
    value = value + DoubleDouble(2.0 * half.high, 2.0 * half.low)
    outside = np.where(x.high == 0, -np.inf, np.where(x.high > 0, np.inf, np.nan))
    return chosen(inside, value, DoubleDouble(outside))


LOG = [1 / 7, 1 / 9]
"""Coefficients of artanh s, of s^7 and on."""


@elementwise
def tanh(x: DoubleDouble) -> DoubleDouble:
    """tanh x = -E / (2 + E) with E = e^(-2|x|) - 1 = 2^m a + (2^m - 1), and the sign of x.

    E is off by 20 V for m = 0, where |E| < 0.3, and by 6 V else, where |E| is at least 0.29 and its sum adds 3 V of it.
    The quotient is off by 2 / (2 + E) times that, at most 1.18 and 2 times; 2 + E and the division add 2 V and 10 V:
    35.6 V. Beyond 40, tanh is 1 within 2^-114."""
    size = absolute(x)
    near = size.high < 40.0
    doubled = DoubleDouble(np.where(near, -2.0 * size.high, -80.0), np.where(near, -2.0 * size.low, 0.0))
    exponent, a = exp_parts(doubled)
    scale = power(exponent)
    less = DoubleDouble(scale * a.high, scale * a.low) + two_sum(scale, np.full_like(scale, -1.0))
    value = _signed(-less / (less + 2.0), x)
    return chosen((size.high < EQUAL) | np.isnan(x.high), x, value)


@elementwise
def sigmoid(x: DoubleDouble) -> DoubleDouble:
    """1 / (1 + e) for x >= 0 and e / (1 + e) below, with e = e^-|x|, which never overflows.

    e adds 5 V, the sum 2 V, the division 10 V; what underflows in e and in the division is at most 2 `LOST`."""
    e = exp(-absolute(x))
    one = DoubleDouble(np.ones_like(e.high))
    return chosen(x.high >= 0, one, e) / (e + 1.0)


@elementwise
def erf(x: DoubleDouble) -> DoubleDouble:
    """erf(c + h) by its Taylor polynomial of degree 14 at the next c = j/64, |h| <= 2^-7, h exact; with the sign of x.

    By Cramer's inequality for Hermite functions the coefficient of h^15 is below 2^-14.7 anywhere, so that the
    remainder is below 2^-112 of the result; those from h^8 on, in float64, add 1 V. For j = 1, where all weighs most, h
    times the slope is at most 1.01 times the result and off by 8.8 V, a0 twice the result and off by 0.5 V; the last
    sum adds 3 V: 14 V. Beyond 9, erf is 1 within 2^-120: 1 - erf(x) has an absolute error, not a relative one."""
    cells = erf_cells()
    size = absolute(x)
    size = chosen(size.high < FARTHEST, size, DoubleDouble(np.full_like(x.high, FARTHEST)))
    centre, index = nearest(size.high * CELLS)
    h = two_sum(size.high - centre / CELLS, size.low)
    tail = polynomial(h.high, [cell.high[index] for cell in cells[ERF_DOUBLED:]])
    value = cells[ERF_DOUBLED - 1][index] + h.high * tail
    for cell in cells[ERF_DOUBLED - 2 :: -1]:
        value = value * h + cell[index]
    return chosen(np.isnan(x.high), x, _signed(value, x))


ERF_DOUBLED = 8
"""Coefficients of erf that are taken in double-double, of h^0 to h^7."""


@elementwise
def sin(x: DoubleDouble) -> DoubleDouble:
    """The sine of `x` radians, for every finite x; NaN of an infinite one. See `_turned`."""
    return chosen(np.abs(x.high) < EQUAL, x, _turned(x, 0))


@elementwise
def cos(x: DoubleDouble) -> DoubleDouble:
    """The cosine of `x` radians, for every finite x; NaN of an infinite one. See `_turned`."""
    return _turned(x, 1)


def _turned(x: DoubleDouble, quarter: int) -> DoubleDouble:
    """sin(x + quarter pi/2) = sin c cos h + cos c sin h for what `quadrants` leaves, c + h, c = j/128 and |h| <= 2^-8.

    Unlike float64 numbers, double-double ones come as near to a multiple of a quarter turn as they please: the
    reduction adds 2^-182, absolutely. Taylor polynomials: remainders h^13/13! < 2^-128 h and h^12/12! < 2^-124. c + h
    carries 2 V, sin h 3.1 V, cos c sin h 8.7 V, which is at most 1.01 times the result; sin c, twice it at most, 0.5 V;
    sin c (cos h - 1) 0.3 V in all; the inner sum adds 3.1 V and the last one 7 V, for j = 1: 22.5 V."""
    finite = np.isfinite(x.high)
    quarters, rest = reduced([np.where(finite, x.high, 0.0), np.where(finite, x.low, 0.0)], DOUBLE)
    quarters += quarter
    table = turns()
    centre, index = nearest(rest.high * ANGLES)
    h = two_sum(rest.high - centre / ANGLES, rest.low)
    square = h * h
    series = square.high * polynomial(square.high, SINE) + ratio(1, 120)
    sine = plus(h, h * (square * plus(ratio(-1, 6), series * square)))
    series = square.high * polynomial(square.high, COSINE) + ratio(1, 24)
    less = square * plus(ratio(-1, 2), series * square)
    index = index + table.most
    sine_c, cosine_c = table.sine[index], table.cosine[index]
    odd = (quarters & 1) != 0
    first, second = chosen(odd, cosine_c, sine_c), chosen(odd, -sine_c, cosine_c)
    value = plus(first, first * less + second * sine)
    value = chosen((quarters & 2) != 0, -value, value)
    return chosen(finite, value, DoubleDouble(np.full_like(x.high, np.nan)))


SINE = [-1 / math.factorial(7), 1 / math.factorial(9), -1 / math.factorial(11)]
"""Taylor coefficients of sin h, of h^7 and on."""

COSINE = [-1 / math.factorial(6), 1 / math.factorial(8), -1 / math.factorial(10)]
"""Taylor coefficients of cos h, of h^6 and on."""


@elementwise
def sqrt(x: DoubleDouble) -> DoubleDouble:
    """The square root, of all magnitudes; NaN below zero, -0 of -0."""
    half, value = _root_parts(x)
    return chosen(_proper(x), _scaled(value, half), DoubleDouble(np.where(x.high < 0, np.nan, x.high)))


@elementwise
def rsqrt(x: DoubleDouble) -> DoubleDouble:
    """1 / sqrt(x): 4 V of the root, 10 V of the division; infinity of 0, with its sign, and 0 of infinity."""
    half, value = _root_parts(x)
    return chosen(_proper(x), _scaled(1.0 / value, -half), DoubleDouble(1.0 / np.sqrt(x.high)))


def _root_parts(x: DoubleDouble) -> tuple[I64, DoubleDouble]:
    """e and a root between 0.8 and 1.7, of x = root^2 2^(2e); of 1 where x is not positive and finite."""
    x = chosen(_proper(x), x, DoubleDouble(np.ones_like(x.high)))
    half = mantissa(x.high)[1] >> 1
    return half, root(_scaled(x, -2 * half))


def _proper(x: DoubleDouble) -> NDArray[np.bool_]:
    return (x.high > 0) & (x.high < np.inf)


def _scaled(x: DoubleDouble, exponent: I64) -> DoubleDouble:
    """`x` times 2^exponent, added again: a low part that underflows may become half a unit of the high one."""
    high, low = scaled(x.high, exponent), scaled(x.low, exponent)
    total = high + low
    return DoubleDouble(total, low - (total - high))


def _signed(x: DoubleDouble, like: DoubleDouble) -> DoubleDouble:
    """`x` or -x, by the sign of `like`."""
    sign = np.copysign(1.0, like.high)
    return DoubleDouble(sign * x.high, sign * x.low)
