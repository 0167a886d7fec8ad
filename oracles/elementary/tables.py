"""Constants and tables of the elementary functions: mpmath computes them when they are first asked for. This module
holds a real number x as the integer nearest to x times 2^`PLACES`. Python rounds integers to float64 correctly, so that
the tables are the same with every version of mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, DoubleDouble

PLACES = 400
"""The number of binary places after the point of a number in this module."""

STEP_BITS = 10
STEPS = 1 << STEP_BITS
"""The number of table entries for powers of two between 1 and 2, and for reciprocals of numbers between 1 and 2."""

CELLS = 64
"""The number of table entries of the error function for an interval of length 1."""

ANGLES = 128
"""The number of table entries of sine and cosine for an interval of length 1."""

FARTHEST = 9
"""The argument from which on 1 - erf(x) is below 2^-120."""

ERF_DEGREE = 14
"""The degree of the Taylor polynomials of erf."""

LONGEST = 1024
"""The exponents in the table of `residues` end before this one."""


def fixed(function: Callable[..., mpf], *arguments: int) -> int:
    """Return the result of mpmath's `function` for these arguments, at most 2^600, as an integer of this module."""
    with mpmath.workprec(PLACES + 100):
        return int(mpmath.nint(mpmath.ldexp(function(*arguments), PLACES)))


def pieces(number: int, first: int, width: int, count: int) -> tuple[float, ...]:
    """Return `count` float64 numbers of `width` bits whose sum is nearest to `number`. The first is a multiple of
    2^-first, the second of 2^-(first + width), and so on."""
    found = []
    for index in range(count):
        unit = PLACES - first - index * width
        piece = ((number + (1 << (unit - 1))) >> unit) << unit
        found.append(math.ldexp(float(piece), -PLACES))
        number -= piece
    return tuple(found)


def doubled(numbers: Iterable[int]) -> DoubleDouble:
    """Return the numbers, each rounded to double-double, shape (len(numbers),)."""
    pairs = [(float(number), float(number - int(float(number)))) for number in numbers]
    high, low = np.ldexp(np.array(pairs).T, -PLACES)
    return DoubleDouble(np.ascontiguousarray(high), np.ascontiguousarray(low))


@cache
def ratio(numerator: int, denominator: int) -> DoubleDouble:
    """Return a fraction rounded to double-double."""
    exact = Fraction(numerator, denominator)
    high = float(exact)
    return DoubleDouble(high, float(exact - Fraction(high)))


@dataclass(frozen=True)
class Powers:
    """The table of 2^(j/STEPS) for -STEPS/2 <= j < STEPS/2, and log(2)/STEPS as `step[0] + step[1] + step[2]`. Products
    of the first two with integers below 2^21 are exact."""

    value: DoubleDouble
    less_one: DoubleDouble
    step: tuple[float, float, float]
    steps_per_unit: float


@cache
def powers() -> Powers:
    """Return the table of `exp`."""
    step = fixed(lambda: mpmath.log(2) / STEPS)
    first, second = pieces(step, 42, 32, 2)
    third = math.ldexp(float(step - int(math.ldexp(first, PLACES)) - int(math.ldexp(second, PLACES))), -PLACES)
    values = [fixed(lambda j: mpf(2) ** (mpf(j) / STEPS), j) for j in range(-STEPS // 2, STEPS // 2)]
    per_unit = float(Fraction(1 << PLACES, step))
    return Powers(doubled(values), doubled(value - (1 << PLACES) for value in values), (first, second, third), per_unit)


@dataclass(frozen=True)
class Logarithms:
    """The table, for j = `start`, `start` + 1, ..., of a number of 16 bits next to STEPS/j and minus its logarithm,
    which is also `coarse` + `rest`. log(2) is `two[0] + two[1]`. Sums of `coarse` and of products of `two[0]` with
    integers below 2^11 are exact."""

    start: int
    reciprocal: F64
    value: DoubleDouble
    coarse: F64
    rest: F64
    two: tuple[float, float]
    log_two: DoubleDouble


@cache
def logarithms() -> Logarithms:
    """Return the table of `log`, for mantissas from 0.707 to 1.415."""
    start, end = 724, 1449
    ratios = [round(Fraction(STEPS * 2**15, j)) for j in range(start, end)]
    values = [fixed(lambda r: -mpmath.log(mpf(r) / 2**15), r) for r in ratios]
    both = [(coarse, rest) for value in values for coarse, rest in [_coarse(value)]]
    two = fixed(lambda: mpmath.log(2))
    coarse, rest = (np.array(column) for column in zip(*both, strict=True))
    reciprocal = np.array(ratios) / 2**15
    return Logarithms(start, reciprocal, doubled(values), coarse, rest, _coarse(two), doubled([two])[0])


def _coarse(number: int) -> tuple[float, float]:
    (first,) = pieces(number, 42, 42, 1)
    return first, math.ldexp(float(number - int(math.ldexp(first, PLACES))), -PLACES)


@dataclass(frozen=True)
class AngleTables:
    """Tables of `sin` and `cos`: pi/2 in pieces of 30 bits, 2/pi, and sine and cosine of j/ANGLES for -`most` <= j <=
    `most`."""

    quarter: tuple[float, ...]
    quarters_per_unit: float
    most: int
    sine: DoubleDouble
    cosine: DoubleDouble


@cache
def angles() -> AngleTables:
    """Return the tables of `sin` and `cos`."""
    quarter = fixed(lambda: mpmath.pi / 2)
    most = 101
    grid = range(-most, most + 1)
    sine = doubled(fixed(lambda j: mpmath.sin(mpf(j) / ANGLES), j) for j in grid)
    cosine = doubled(fixed(lambda j: mpmath.cos(mpf(j) / ANGLES), j) for j in grid)
    return AngleTables(pieces(quarter, 29, 30, 12), float(Fraction(1 << PLACES, quarter)), most, sine, cosine)


@cache
def residues(least: int) -> F64:
    """Return 2^e minus whole turns of 2 pi, for each exponent e from `least` on, in pieces of 35 bits: shape (LONGEST -
    least, 7)."""
    more = LONGEST + PLACES
    with mpmath.workprec(more + PLACES):
        turn = int(mpmath.nint(mpmath.ldexp(2 * mpmath.pi, more + PLACES)))
    rows = []
    for exponent in range(least, LONGEST):
        left = (1 << (exponent + more + PLACES)) % turn
        left -= turn if 2 * left > turn else 0
        rows.append(pieces(left >> more, 33, 35, 7))
    return np.array(rows)


@cache
def erf_cells() -> tuple[DoubleDouble, ...]:
    """Return, for each power k up to `ERF_DEGREE`, the coefficients of h^k in erf(j/CELLS + h), shape (CELLS * FARTHEST
    + 1,). The derivative y of erf has y' = -2 x y, so its coefficients have (k + 1) y_(k+1) = -2 (j/CELLS y_k +
    y_(k-1))."""
    columns: list[list[int]] = [[] for _ in range(ERF_DEGREE + 1)]
    for j in range(CELLS * FARTHEST + 1):
        previous, last = 0, fixed(lambda j: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-((mpf(j) / CELLS) ** 2)), j)
        columns[0].append(fixed(lambda j: mpmath.erf(mpf(j) / CELLS), j))
        for k in range(ERF_DEGREE):
            columns[k + 1].append(last // (k + 1))
            previous, last = last, -2 * (last * j // CELLS + previous) // (k + 1)
    return tuple(doubled(column) for column in columns)
