"""The gamma function and its logarithm in double-double, by Taylor polynomials of log gamma.

Between poles log |gamma| is convex, since the slope of its slope psi is positive: that is what bounds here count on."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, chosen, two_sum
from oracles.elementary.elementwise import I64, nearest, polynomial
from oracles.elementary.tables import PLACES, doubled, fixed

STEPS = 16
"""The number of cells for an interval of length 1 below `WHOLE`. From there on a cell is an interval of length 1."""
WHOLE = 16
FIRST = 0.5
LAST = 1100
"""The first and the last centre."""
SPLIT = 3.5
"""The centre from which on powers of two are taken out of gamma, so that the rest is next to 1."""
DEGREE = 27
DOUBLED = 13
"""The number of coefficients in double-double."""


class Cells(NamedTuple):
    """The table of log gamma, for each centre c: the whole `binade` e, and for each power k the coefficient of h^k in
    log gamma(c + h) - e log 2."""

    binade: F64
    columns: tuple[DoubleDouble, ...]


@cache
def cells() -> Cells:
    """Return the table. Coefficients are those of psi, -(-1)^k zeta(k, c) / k, where zeta(k, c + 1) is zeta(k, c) less
    c^-k: mpmath has to know them between 1/2 and 3/2 alone."""
    steps = int(FIRST * STEPS)
    rows: dict[int, list[int]] = {j: _first(j) for j in range(steps, steps + STEPS)}
    for j in range(steps, WHOLE * STEPS + 1):
        rows[j + STEPS] = _next(rows[j], j)
    whole = {WHOLE: rows[WHOLE * STEPS]}
    for c in range(WHOLE, LAST):
        whole[c + 1] = _next(whole[c], c * STEPS)
    table = [rows[j] for j in range(steps, WHOLE * STEPS + 1)] + [whole[c] for c in range(WHOLE + 1, LAST + 1)]
    two, split = fixed(lambda: mpmath.log(2)), int((SPLIT - FIRST) * STEPS)
    binade = [0 if place < split else round(row[0] / two) for place, row in enumerate(table)]
    first = doubled(row[0] - number * two for row, number in zip(table, binade, strict=True))
    others = [doubled(row[k] for row in table) for k in range(1, DEGREE + 1)]
    return Cells(np.array(binade, np.float64), (first, *others))


def _first(j: int) -> list[int]:
    """Return the coefficients for the centre j / `STEPS`, at most 3/2, as numbers of `tables`."""
    zetas = [fixed(lambda j, k=k: (-1) ** k * mpmath.zeta(k, mpf(j) / STEPS) / k, j) for k in range(2, DEGREE + 1)]
    start = [fixed(lambda j, of=of: of(mpf(j) / STEPS), j) for of in (mpmath.loggamma, lambda x: mpmath.psi(0, x))]
    return [0 if j == STEPS else start[0], start[1], *zetas]


def _next(row: list[int], j: int) -> list[int]:
    """Return the coefficients for the centre j / `STEPS` + 1, from those for j / `STEPS`."""
    found, power = [row[0] + (0 if j == STEPS else fixed(lambda j: mpmath.log(mpf(j) / STEPS), j))], 1 << PLACES
    for k in range(1, DEGREE + 1):
        power = power * STEPS // j
        found.append(row[k] + (power // k if k % 2 else -power // k))
    return found


def expanded(c: F64, index: I64, h: DoubleDouble) -> tuple[F64, DoubleDouble]:
    """Return e and s with log gamma(c + h) = e log 2 + s, for the centre c at `index`.

    |h| is at most c/16, so that the remainder is below 2^-112 of the first coefficient that counts. |s| is at most 4;
    h times the slope is off by 8 V of at most 3.6, the last sum adds 3 V: 41 V. At c = 1 and 2 the first coefficient
    is 0, beside them twice the result: 15 V of the result where that is a logarithm next to 0."""
    table = cells()
    tail = polynomial(h.high, [each.high[index] for each in table.columns[DOUBLED:]])
    value = table.columns[DOUBLED - 1][index] + h.high * tail
    for each in table.columns[DOUBLED - 2 :: -1]:
        value = value * h + each[index]
    return table.binade[index], value


def centre(x: F64) -> tuple[F64, I64]:
    """Return the centre next to x, from 1/2 to `LAST`, and its index in the table."""
    fine, coarse = nearest(np.minimum(x, WHOLE) * STEPS), nearest(np.clip(x, WHOLE, LAST))
    is_fine = x < WHOLE
    c = np.where(is_fine, fine[0] / STEPS, coarse[0])
    steps = int(FIRST * STEPS)
    return c, np.where(is_fine, fine[1] - steps, coarse[1] - WHOLE + WHOLE * STEPS - steps)


def of_positive(x: DoubleDouble, more: float) -> tuple[F64, DoubleDouble]:
    """Return `expanded` for x + `more`, 0 or 1, from 1/2 to `LAST`."""
    c, index = centre(x.high + more)
    return expanded(c, index, two_sum(x.high - (c - more), x.low))


def of_mirrored(x: DoubleDouble) -> tuple[F64, DoubleDouble]:
    """Return `expanded` for 1 - x, for x from 1 - `LAST` to 1/2."""
    c, index = centre(1.0 - x.high)
    return expanded(c, index, two_sum((1.0 - c) - x.high, -x.low))


def from_whole(x: DoubleDouble) -> tuple[DoubleDouble, F64]:
    """Return x less the nearest whole number, without error, and 1 if that number is odd, else 0."""
    high = np.rint(x.high)
    near = two_sum(x.high - high, x.low)
    low = np.rint(near.high)
    return two_sum(near.high - low, near.low), np.abs(_odd(high) - _odd(low))


def _odd(whole: F64) -> F64:
    return np.abs(whole - 2.0 * np.rint(whole / 2))


def apart(x: F64) -> F64:
    """Return the distance from the nearest pole: 0 and the negative whole numbers."""
    return np.where(x > 0, x, np.abs(x - np.rint(x)))


def psi(x: F64) -> F64:
    """Return the slope of log gamma, nearly."""
    y = np.where(x > 0, x, 1.0 - x)
    found = np.zeros_like(y)
    for k in range(WHOLE):
        found = found - np.where(y < 2.0**50, 1.0 / (y + k), 0.0)
    far = np.where(y < 2.0**50, y + WHOLE, y)
    inverse = 1.0 / far**2
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    found = found + np.log(far) - 0.5 / far - series
    return np.where(x > 0, found, found - np.pi / np.tan(np.pi * (x - np.rint(x))))


def steepest(x: F64, radius: F64) -> F64:
    """Return a bound of the slope of psi between x - radius and x + radius: infinite if a pole may lie there. For
    positive y it is at most 1/y + 1/y^2, for negative ones (pi / sin(pi y))^2, at most (pi / 2 d)^2 at a distance d of
    a pole."""
    least, away = x - radius, np.maximum(apart(x) - radius, 0.0)
    return np.where(least > 0, 1.0 / least + 1.0 / least**2, np.where(away > 0, (np.pi / 2 / away) ** 2, np.inf))


def joined(
    mask: NDArray[np.bool_], one: tuple[F64, DoubleDouble], two: tuple[F64, DoubleDouble]
) -> tuple[F64, DoubleDouble]:
    """Return the first pair where the mask is set, else the second."""
    return np.where(mask, one[0], two[0]), chosen(mask, one[1], two[1])
