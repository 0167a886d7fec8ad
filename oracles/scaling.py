"""Fast tier: rows times powers of two, so that double-double arithmetic on float64 rows of any size neither overflows
nor loses more than a known absolute error.

With x = 2^p x', r = 2^q r', and m = 2^s m' where the largest |x'| of a row, r' and the largest |m'| are about 1, a
product of a few of them does not overflow, and what underflows in it is at most a few times `doubledouble.LOST`, times
2^(2 `MOST`) where h = x r is larger than h' = x' r'. Callers add `LOST`, which is more, to their own error. float64
arithmetic judges narrower dtypes, whose range it exceeds by itself: it needs no shift, and no such error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64, DoubleDouble, Real, exponents, head, shifted
from oracles.enclosure import Mask

Shift = np.ndarray[tuple[int, ...], np.dtype[np.int64]] | int
"""The exponents of powers of two; 0 where nothing is scaled."""

MOST = 200
"""The largest exponent of h = x r: sqrt(n) bounds it where r is the root of the row, nothing where it is an input."""

LOST = 2.0**-600
"""The absolute error of what is calculated of scaled numbers, where it is not zero by itself: below
2^9 `doubledouble.LOST` for h mean(h m), times 2^(2 `MOST`), times budgets of at most 2^50."""

LOWEST = 2.0**-1072
"""The absolute error of a double-double number that is scaled back: both of its parts may be rounded to 2^-1074."""


@dataclass(frozen=True)
class ScaledRows:
    """Rows of x with their reciprocal roots r."""

    x: F64
    """The scaled rows, (rows, n)."""
    r: Real
    """The scaled reciprocal roots, (5, rows)."""
    h: Shift
    """The exponents (rows, 1) of the products: x r is 2^h times the product of `x` and `r`."""
    root: Shift
    """The exponents (rows, 1) of the roots: r is 2^root times `r`."""

    @property
    def unsafe(self) -> Mask | bool:
        """(rows,) where h is larger than the error allows for."""
        return False if isinstance(self.h, int) else (self.h[:, 0] > MOST) & (head(self.r)[0] != 0)


def scaled_rows(x: F64, roots: Real) -> ScaledRows:
    """Scale rows (rows, n) and their roots (5, rows), if these are double-double."""
    if not isinstance(roots, DoubleDouble):
        return ScaledRows(x, roots, 0, 0)
    of_x, of_root = exponents(x, 1), exponents(head(roots)[0][None], 0)
    return ScaledRows(
        np.ldexp(x, -of_x[:, None]), shifted(roots, -of_root), (of_x + of_root)[:, None], of_root[:, None]
    )


def times(value: Real, by: Shift) -> Real:
    """The value times 2^by."""
    return value if isinstance(by, int) else shifted(value, by)


def times_float(value: F64 | float, by: Shift) -> F64 | float:
    """The same of float64 numbers."""
    if isinstance(by, int):
        return value
    product: F64 = np.ldexp(value, by)
    return product
