"""e^x, with the reduction to powers of two and tables that other functions use too."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen, plus, two_sum, whichever
from oracles.elementary.elementwise import I64, U, V, nearest, of_double, of_float64, polynomial, scaled, scaled_double
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary, of_growth
from oracles.elementary.tables import STEP_BITS, STEPS, powers, ratio

LARGEST = 710.0
"""The argument from which on exp overflows."""

LEAST = -746.0
"""The argument below which exp is less than 2^-1076, so that it rounds to zero."""

_EXTREME = 2.0**32
_FARTHEST = 24
"""The k for which exp of magnitudes from 2^k on overflows or underflows in any format."""
_WHOLE = 10
"""The k for which exp of magnitudes below 2^k is calculated in one step."""


def precise(x: mpf) -> mpf:
    """Return e^x. For |x| beyond 2^32 return a result that overflows or underflows in any format, since mpmath's exact
    one would fill the memory."""
    if abs(x) <= _EXTREME:
        return mpmath.exp(x)
    return mpf(mpmath.inf if x > 0 else 0)


@of_float64
def float64(x: F64) -> F64:
    """Return e^x = 2^m T (1 + q), with T = 2^(j/1024) from a table and q = e^r - 1, |r| < 2^-11.5.

    r = (x - n L1) - n L2 is off by 1.01 * 2^-65: its own rounding, as the first difference is exact. That of q is as
    large, the remainder r^5/120 is 1.4 * 2^-65, and T q and its sum with the low part of T add 1.42 * 2^-65 each: 0.002
    u in all. The last sum adds u, scaling a subnormal result half of 2^-1074.
    """
    exponent, index, r, _ = steps(np.clip(x, LEAST, LARGEST))
    return powered(exponent, index, r)


def powered(exponent: I64, index: I64, r: F64) -> F64:
    """Return 2^exponent T (1 + q), where T is the table entry at `index` and q = e^r - 1, |r| < 2^-11.5."""
    value = powers().value
    q = r + r * r * polynomial(r, SHORT)
    high = value.high[index]
    return scaled(high + (value.low[index] + high * q), exponent)


SHORT = [1 / math.factorial(k) for k in range(2, 5)]
"""Taylor coefficients of (e^r - 1 - r) / r^2."""


def steps(x: F64) -> tuple[I64, I64, F64, F64]:
    """Return the parts of x = (m + j/1024) log 2 + r, each of shape (n,): m, the table's index of j, r, and the
    rounding error of r."""
    table = powers()
    steps, number = nearest(x * table.steps_per_unit)
    first = x - steps * table.step[0]
    second = steps * (table.step[1] + table.step[2])
    r = first - second
    number += STEPS // 2
    return number >> STEP_BITS, number & (STEPS - 1), r, (first - r) - second


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return e^x = 2^m (1 + a), see `parts`. r is off by 0.4 V, t by 0.5 V of itself, the sums of a by 3.1 V of it, and
    |a| is at most 0.42 of 1 + a; the last sum adds 2 V: 4.3 V. Below -670 the low part underflows, below -708 both do:
    half of 2^-1074 for each of two roundings."""
    inside = (x.high > LEAST) & (x.high < LARGEST)
    limit = np.where(x.high > 0, LARGEST, LEAST)
    exponent, a = parts(chosen(inside, x, DoubleDouble(limit)))
    value = scaled_double(a + 1.0, exponent)
    return chosen(np.isnan(x.high), x, value)


def parts(x: DoubleDouble) -> tuple[I64, DoubleDouble]:
    """Return m and a, with e^x = 2^m (1 + a) and -0.3 < a < 0.42.

    a = t + q + t q, with t = 2^(j/1024) - 1 from a table and q = e^r - 1 for r = ((x.high - n L1) - n L2) + (x.low - n
    L3), |r| < 2^-11.5: all is exact but n L3, below 2^-54, and the last sum. The remainder of q is r^9/9! < 2^-110 r.
    For m = 0, a is within 20 V of itself: r carries 3 V, q and q + t q 3.1 V more each, t 0.5 V. That is all there is
    for n = 0, with 3 V for a sum with 0; for n = 1 or -1, |q| is at most |a| and |t| at most 2 |a|, so that t + q adds
    9 V; beyond, all weigh less.
    """
    table = powers()
    steps, number = nearest(x.high * table.steps_per_unit)
    first, second, third = table.step
    r = two_sum(x.high - steps * first, -steps * second) + two_sum(x.low, -steps * third)
    number += STEPS // 2
    return number >> STEP_BITS, less_one(number & (STEPS - 1), r)


def less_one(index: I64, r: DoubleDouble) -> DoubleDouble:
    """Return the a of `parts` from r and the table's index of t."""
    t = powers().less_one[index]
    series = r.high * polynomial(r.high, LONG) + ratio(1, 24)
    q = plus(r, r * r * plus(ratio(1, 2), plus(ratio(1, 6), series * r) * r))
    return plus(t, plus(q, q * t))


LONG = [1 / math.factorial(k) for k in range(5, 9)]
"""Taylor coefficients of e^r, from r^5 on."""


def extended(x: ExtendedDouble) -> ExtendedDouble:
    """Return e^x as the power 2^k of e^(x / 2^k): its error is that of a relative error of 2^-110 in x."""
    near = (x.exponent <= _FARTHEST) & np.isfinite(x.fraction.high)
    halvings = np.where(near, np.maximum(x.exponent - _WHOLE, 0), 0)
    value = chosen(near, x.in_units_of(halvings), DoubleDouble(np.zeros(x.shape)))
    exponent, less = parts(value)
    found = ExtendedDouble.of(less + 1.0, exponent)
    for done in range(int(halvings.max(initial=0))):
        found = whichever(halvings > done, found * found, found)
    size = x.fraction.high
    far = np.where(np.isnan(size), np.nan, np.where(size > 0, np.inf, 0.0))
    return whichever(near, found, ExtendedDouble.of(DoubleDouble(far)))


def reach(least: int, high: int) -> tuple[int, int]:
    """Return the exponents of two between which e^x lies for |x| < 2^high."""
    beyond = min(-LEAST_BINADE, math.ceil(2.0 ** min(high, 8) * math.log2(math.e)))
    return -beyond, beyond


FUNCTION = Elementary(
    name="exp",
    summary="e^value",
    precise=precise,
    double=Certified(double, Bound(5 * V, 2.0**-1073)),
    float64=Certified(float64, Bound(1.01 * U, 2.0**-1074)),
    extended=extended,
    limits=((-math.inf, 0.0), (-0.0, 1.0), (0.0, 1.0), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=lambda x, value, radius: (value, of_growth(value, radius)),
    farthest=None,
    sign="positive",
    parity="neither",
    reach=reach,
    hard=(709.0, 709.782712893384, -708.0, -708.396418532264, -744.4, -745.133219101941),
    usual=2.0,
    loose=4.0,
)
