"""Plain values in place of drawn ones: what a failure needs of its values shows in how plain they may become."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from fuzz.base.dtypes import quantise
from fuzz.base.stream import Reals

Values = NDArray[np.generic]
Plainer = Callable[[Reals], Reals]
_OUTLIER = 16.0
"""times the median magnitude, or one part of it: an element that a row is about."""


def _ones(values: Reals) -> Reals:
    return np.ones_like(values)


def _integers(values: Reals) -> Reals:
    return np.resize(np.arange(1.0, 8.0), values.shape)


def _levels(values: Reals) -> Reals:
    """One power of two per row, of about its root mean square."""
    finite = np.where(np.isfinite(values), values, 0.0)
    largest = np.abs(finite).max(axis=-1, keepdims=True, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)  # squares of the largest numbers overflow
    roots = scale * np.sqrt(np.mean(np.square(finite / scale), axis=-1, keepdims=True)) if values.size else scale
    return np.broadcast_to(_power(roots), values.shape).copy()


def _outliers(values: Reals) -> Reals:
    """Ones, but for what is zero, not finite, or far larger or smaller than the rest."""
    finite = np.abs(values[np.isfinite(values)])
    middle = float(np.median(finite)) if finite.size else 1.0
    ordinary = np.isfinite(values) & (np.abs(values) < _OUTLIER * middle) & (np.abs(values) > middle / _OUTLIER)
    return np.where(ordinary, 1.0, _power(values))


def _power(values: Reals) -> Reals:
    """The power of two below each number; zeros, infinities and NaN as they are."""
    ordinary = np.isfinite(values) & (values != 0)
    exponents = np.frexp(np.where(ordinary, values, 1.0))[1] - 1
    return np.where(ordinary, np.copysign(np.ldexp(1.0, exponents), values), values)


def _short(values: Reals) -> Reals:
    """Four bits of mantissa."""
    ordinary = np.isfinite(values)
    fractions, exponents = np.frexp(np.where(ordinary, values, 0.0))
    return np.where(ordinary, np.ldexp(np.rint(fractions * 16.0) / 16.0, exponents), values)


PLAIN: Mapping[str, Plainer] = {
    "ones": _ones,
    "integers": _integers,
    "levels": _levels,
    "outliers": _outliers,
    "powers": _power,
    "short": _short,
}
"""Ways to make values plain, the plainest first."""
DRAWN = "drawn"
"""values as they were drawn."""
KINDS = (*PLAIN, DRAWN)


def plain(kind: str, values: Values, dtype: str) -> Values:
    """The values made plain, in their own dtype; the last axis is the row."""
    if kind == DRAWN:
        return values
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are ordinary values here
        return quantise(PLAIN[kind](values.astype(np.float64)), dtype)
