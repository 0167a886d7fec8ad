"""Sine, and the shifted sine that makes the cosine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, chosen, plus, proportional, two_sum
from oracles.elementary.elementwise import I64, U, V, nearest, of_double, of_float64, polynomial
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary
from oracles.elementary.tables import ANGLES, angles, ratio, residues

LIMIT = 2.0**20
"""The magnitude of arguments from which on they are replaced by residues."""

LEAST_EXPONENT = 20 - 52
"""The exponent of the last mantissa bit of the smallest arguments that are replaced by residues."""

DIGIT = 18
"""The number of bits of the integers into which a mantissa is split."""


@dataclass(frozen=True)
class Depth:
    """The number of pieces of a quarter turn, and of a residue, and of numbers that hold a sum of terms."""

    quarter: int
    residue: int
    sums: int


SINGLE = Depth(quarter=5, residue=5, sums=3)
"""The depth for float64. A rest is off by less than 2^-120: the quarter's pieces contribute 2^22 2^-150, those of
residues 3 * 2^18 2^-174, and there are less than 64 roundings of 2^-137, of a sum below 2^22 2^-53 2^-53; see
`_cheaper` too. No float64 number except 0 is nearer than 2^-61 to a multiple of a quarter turn (a known fact, which a
test computes): relative to the rest, the error is 2^-59."""

DOUBLE = Depth(quarter=8, residue=7, sums=4)
"""The depth for double-double. The same errors are 2^22 2^-240, 2 * 3 * 2^18 2^-244, and 128 roundings of 2^-190: a
rest is off by less than 2^-182."""

NEAR_POLES = Depth(quarter=12, residue=7, sums=6)
"""The depth where rests are divided by. The same errors are 2^22 2^-360, 2^-224 for arguments from `LIMIT` on, and 128
roundings of 2^-296: a rest is off by less than 2^-224."""


def reduced(parts: Sequence[F64], depth: Depth) -> tuple[I64, DoubleDouble]:
    """Return the number of quarter turns, modulo 4 or a multiple of 4, and the rest, at most pi/4 (1 + 2^-20), of the
    sum of `parts`, finite and of shape (n,), the largest first.

    An argument below `LIMIT` is itself a term of the rest; a larger one, m 2^e with a mantissa of 53 bits, is replaced
    by integers of 18 bits of m times 2^e, 2^(e + 18) and 2^(e + 36) less whole turns, from a table for every exponent
    (the way of Payne and Hanek, with residues in radians). In either case the nearest number of quarters, n, is below
    2^22, and minus n times the pieces of a quarter are terms too. Every product is exact. The error by cutting off a
    quarter is below 2^22 times half of the unit of its last piece, and by cutting off residues below 3 * 2^18 times
    half of the unit of a residue's last piece. Terms are added as an unevaluated sum of float64 numbers, each of which
    takes the rounding errors of the one before it (Shewchuk's expansions, cut after a few); the last is rounded.
    """
    large = np.abs(parts[0]) >= LIMIT
    if not large.any():
        return _direct(parts, depth)
    quarters, rest = _direct([np.where(large, 0.0, part) for part in parts], depth)
    terms = [term for part in parts for term in _residue_terms(part[large], depth)]
    quarters[large], fixed = _folded(terms, depth)
    rest.high[large], rest.low[large] = fixed.high, fixed.low
    return quarters, rest


def _direct(parts: Sequence[F64], depth: Depth) -> tuple[I64, DoubleDouble]:
    return _cheaper(parts[0]) if depth is SINGLE else _folded(parts, depth)


def _cheaper(x: F64) -> tuple[I64, DoubleDouble]:
    """Return the result of `_folded` for one float64 term below `LIMIT`, in a quarter of the time (the way of Cody and
    Waite). x - n P1 is a whole multiple of 2^-53 below 1, or n is 0: exact. n P3 is below 2^-38, so the rounding there
    is below 2^-53 times that or the rest, by 2^-53 of it; n times all the other pieces is off by 2^-121."""
    table = angles()
    quarters, count = nearest(x * table.quarters_per_unit)
    first, second, third, fourth, fifth, *_ = table.quarter
    rest = two_sum(x - quarters * first, -quarters * second)
    whole = two_sum(rest.high, -quarters * third)
    return count, two_sum(whole.high, (rest.low + whole.low) - quarters * (fourth + fifth))


def _residue_terms(part: F64, depth: Depth) -> list[F64]:
    """Return exact terms whose sum is `part` minus whole turns; a part below `LIMIT` is a term itself."""
    table = residues(LEAST_EXPONENT)
    large = np.abs(part) >= LIMIT
    bits = part.view(np.int64)
    exponent = ((bits >> 52) & 2047) - 1075
    mantissa = np.where(large, (bits & ((1 << 52) - 1)) | (1 << 52), 0)
    terms = [np.where(large, 0.0, part)]
    for place in (0, DIGIT, 2 * DIGIT):
        digit = np.copysign(((mantissa >> place) & ((1 << DIGIT) - 1)).astype(np.float64), part)
        row = np.where(large, exponent + place - LEAST_EXPONENT, 0)
        terms += [digit * table[row, piece] for piece in range(depth.residue)]
    return terms


def _folded(terms: Sequence[F64], depth: Depth) -> tuple[I64, DoubleDouble]:
    table = angles()
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    quarters, count = nearest(total * table.quarters_per_unit)
    sums = [terms[0], *(np.zeros_like(total) for _ in range(depth.sums - 1))]
    for term in [*terms[1:], *(-quarters * piece for piece in table.quarter[: depth.quarter])]:
        _increase(sums, term)
    return count, _distilled(sums)


def _increase(sums: list[F64], term: F64) -> None:
    for index in range(len(sums) - 1):
        added = two_sum(sums[index], term)
        sums[index], term = added.high, added.low
    sums[-1] = sums[-1] + term


def _distilled(sums: list[F64]) -> DoubleDouble:
    """Return the sum in two numbers, by two passes: terms may cancel in the first, but only a bit in the second."""
    for _ in range(2):
        for index in reversed(range(len(sums) - 1)):
            added = two_sum(sums[index], sums[index + 1])
            sums[index], sums[index + 1] = added.high, added.low
    tail = sums[-1]
    for part in sums[-2:0:-1]:
        tail = part + tail
    return two_sum(sums[0], tail)


EQUAL = 2.0**-55
"""The magnitude of x below which sin x equals x within a relative V/32."""

WORST = 6381956970095103 * 2.0**797
"""The float64 number nearest to a multiple of a quarter turn, at a distance of 2^-60.9."""

HARD = (2.0**20, 2.0**-27, 2.0**-55, 0.7853981633974483, WORST, 2.0**1023)

FLOAT64_BOUND = Bound(1.7 * U)
DOUBLE_BOUND = Bound(24 * V, 2.0**-182)
"""The bounds of both sine and cosine."""


@of_float64
def float64(x: F64) -> F64:
    """Return the sine of `x` radians, for every finite x; NaN for an infinite one. See `turned`."""
    return turned(x, 0)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return the sine of `x` radians, for every finite x; NaN for an infinite one. See `turned_double`."""
    return chosen(np.abs(x.high) < EQUAL, x, turned_double(x, 0))


def turned(x: F64, quarter: int) -> F64:
    """Return sin(x + quarter pi/2), by the Taylor polynomials of sine and cosine at the rest r that `reduced` leaves,
    within pi/4.

    Sine: all terms except r are at most 0.115 of the result and off by 4.1 u; their sum with the low part of r adds
    0.12 u, the missing cosine factor of that part and the remainder 0.02 u, the last sum u: 1.65 u with the reduction's
    0.02 u. Cosine: 1 - r^2/2 is exact except for the rounding of r^2, 0.36 u of the result; the other terms are 0.03 of
    it and off by 4 u, the missing sine factor of r's low part adds 0.06 u, the last sum u: 1.6 u.
    """
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


def turned_double(x: DoubleDouble, quarter: int, depth: Depth = DOUBLE) -> DoubleDouble:
    """Return sin(x + quarter pi/2) = sin c cos h + cos c sin h for the rest c + h that `reduced` leaves, c = j/128 and
    |h| <= 2^-8.

    Double-double numbers, unlike float64 numbers, can be arbitrarily close to a multiple of a quarter turn: the
    reduction adds an absolute error of 2^-182. Taylor polynomials: remainders h^13/13! < 2^-128 h and h^12/12! <
    2^-124. c + h carries 2 V, sin h 3.1 V, cos c sin h 8.7 V, which is at most 1.01 times the result; sin c, twice it
    at most, 0.5 V; sin c (cos h - 1) 0.3 V in all; the inner sum adds 3.1 V and the last one 7 V, for j = 1: 22.5 V.
    """
    finite = np.isfinite(x.high)
    quarters, rest = reduced([np.where(finite, x.high, 0.0), np.where(finite, x.low, 0.0)], depth)
    quarters += quarter
    table = angles()
    centre, index = nearest(rest.high * ANGLES)
    h = two_sum(rest.high - centre / ANGLES, rest.low)
    square = h * h
    series = square.high * polynomial(square.high, DOUBLE_SINE) + ratio(1, 120)
    sine = plus(h, h * (square * plus(ratio(-1, 6), series * square)))
    series = square.high * polynomial(square.high, DOUBLE_COSINE) + ratio(1, 24)
    less = square * plus(ratio(-1, 2), series * square)
    index = index + table.most
    sine_c, cosine_c = table.sine[index], table.cosine[index]
    odd = (quarters & 1) != 0
    first, second = chosen(odd, cosine_c, sine_c), chosen(odd, -sine_c, cosine_c)
    value = plus(first, first * less + second * sine)
    value = chosen((quarters & 2) != 0, -value, value)
    return chosen(finite, value, DoubleDouble(np.full_like(x.high, np.nan)))


DOUBLE_SINE = [-1 / math.factorial(7), 1 / math.factorial(9), -1 / math.factorial(11)]
"""Taylor coefficients of sin h, from h^7 on."""

DOUBLE_COSINE = [-1 / math.factorial(6), 1 / math.factorial(8), -1 / math.factorial(10)]
"""Taylor coefficients of cos h, from h^6 on."""


def farthest(low: F64, high: F64, value: F64) -> F64:
    """Return the largest distance from a value: sines lie between -1 and 1."""
    return 1.0 + np.abs(value)


FUNCTION = Elementary(
    name="sin",
    summary="sine of radians",
    precise=mpmath.sin,
    double=Certified(double, DOUBLE_BOUND),
    float64=Certified(float64, FLOAT64_BOUND),
    extended=proportional(double),
    limits=((-math.inf, math.nan), (-0.0, -0.0), (0.0, 0.0), (math.inf, math.nan), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    tangent=lambda x, value, radius: (np.cos(x), radius**2 / 2),
    farthest=farthest,
    sign="any",
    parity="odd",
    reach=lambda least, high: (LEAST_BINADE, 0),
    hard=HARD,
    usual=2.0,
    loose=4.0,
)
