"""How far outputs stray from exact values beyond their own rounding, in proportion to these."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.enclosure import Mask
from oracles.formula.exact.ragged import Ragged
from oracles.rounding import half_gaps


def strayed_of(got: F64, exact: F64, of_pair: Ragged, formats: Sequence[Format]) -> tuple[F64, Mask]:
    """Return how far each element strayed, from the outputs of each pair in its format; and where exact values are
    zero, infinite or NaN, from which nothing may stray. What is of one format and lies side by side is looked at in
    one."""
    strayed, special = np.empty_like(got), np.empty(len(got), bool)
    end = 0
    for form, pairs in groupby(zip(formats, of_pair.lengths.tolist(), strict=True), key=lambda pair: pair[0]):
        start, end = end, end + sum(length for _, length in pairs)
        span = slice(start, end)
        _compare(got[span], exact[span], form, strayed[span], special[span])
    return strayed, special


def _compare(got: F64, exact: F64, form: Format, strayed: F64, special: Mask) -> None:
    """Fill in `strayed` and `special`. What is rare is looked at by itself, for most of the time goes into passes over
    all elements."""
    size, centre = np.abs(got), np.abs(exact)
    np.subtract(size, centre, out=strayed)
    np.abs(strayed, out=strayed)
    strayed -= half_gaps(size, form, centre)
    np.maximum(strayed, 0.0, out=strayed)
    strayed /= centre
    signs = got.view(np.int64) ^ exact.view(np.int64)
    if signs.min() < 0:
        strayed[signs < 0] = np.inf
    np.less_equal(centre, 0.0, out=special)
    special |= ~(centre < np.inf)
    if special.any():
        at = special.nonzero()[0]
        value, found = exact[at], got[at]
        same = np.where(np.isnan(value), np.isnan(found), (found == value) & (signs[at] >= 0))
        strayed[at] = np.where(same, 0.0, np.inf)
