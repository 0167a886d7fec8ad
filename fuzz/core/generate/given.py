"""Literal values, and recipes that start from them. Such a recipe makes the given values bit by bit, other values of
about their size, or plainer ones. They show which properties of its values a failure needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.draw import GIVEN, Given
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits, quantise
from fuzz.core.base.stream import Reals, Stream
from oracles.dtypes import form
from oracles.formula.contract import Contract

Values = NDArray[np.generic]


def given_rows(values: Values) -> Given:
    """Return a record of these values. The last axis is the row."""
    dtype = next(name for name, numpy in NUMPY_DTYPE.items() if numpy == values.dtype)
    n = values.shape[-1] if values.ndim else 1
    return Given(dtype, n, np.ascontiguousarray(values).tobytes())


def rows_of(given: Given) -> Values:
    """Return the given values, shape (rows, n)."""
    return from_bits(given.bits, given.dtype, (given.rows, given.n))


def repeated_or_cut(given: Given, rows: int, n: int, *, columns: bool = False) -> Values:
    """Return `rows` x `n` values: the given ones, cut or repeated.

    A single row of a stack (`columns`) is the last given row, since a stack whose rows differ often begins with a plain
    one. If one row of a stack is given and more are needed, they are multiples of it: equal rows would show nothing.
    """
    values = rows_of(given)
    if not rows * n:
        return np.zeros((rows, n), values.dtype)
    if not values.size:  # a case without elements
        return np.ones((rows, n), values.dtype)
    if columns and rows == 1:
        values = values[-1:]
    if values.shape == (rows, n):
        return values
    tiled = values[np.ix_(np.arange(rows) % len(values), np.arange(n) % given.n)]
    with np.errstate(all="ignore"):  # a signalling NaN would warn
        return tiled.astype(np.float64) * np.arange(1.0, 1 + rows)[:, None] if columns and len(values) == 1 else tiled


def made_of(recipe: str, values: Values, dtype: str, stream: Stream) -> Values:
    """Return values of a recipe that starts from the given ones. `dtype` is the dtype of the case's first input."""
    if recipe == GIVEN:
        return values
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    level = float(finite.max(initial=0.0)) or 1.0
    return _LIKE_GIVEN[recipe](wide.shape, level, dtype, stream)


def stored(values: Values, dtype: str) -> Values:
    """Return the values in a dtype. Values that have this dtype already keep their bits."""
    if values.dtype == NUMPY_DTYPE[dtype]:
        return values
    with np.errstate(invalid="ignore"):
        return quantise(values.astype(np.float64), dtype)


Like = Callable[[tuple[int, ...], float, str, Stream], Reals]


def _normal(shape: tuple[int, ...], level: float, dtype: str, stream: Stream) -> Reals:
    return stream.normal(int(np.prod(shape))).reshape(shape) * level


def _steps(dtype: str, usual: int) -> int:
    """Return the exponent of a power of two by which ordinary values may grow or shrink: `usual`, or less in narrow
    formats, so that squares of the scaled values do not overflow."""
    return min(usual, form(dtype).emax * 2 // 5)


def _scaled(power: int) -> Like:
    """Return a recipe for normal values times 2^power, or times less if squares would leave the range of the dtype."""

    def scaled(shape: tuple[int, ...], level: float, dtype: str, stream: Stream) -> Reals:
        steps = _steps(dtype, abs(power))
        values: Reals = np.ldexp(_normal(shape, level, dtype, stream), steps if power > 0 else -steps)
        return values

    return scaled


def _ending(last: Callable[[float], float]) -> Like:
    """Return a recipe for normal values in which the last element of each row is replaced by `last(level)`."""

    def ending(shape: tuple[int, ...], level: float, dtype: str, stream: Stream) -> Reals:
        values = _normal(shape, level, dtype, stream)
        values[:, -1:] = last(level)
        return values

    return ending


def _large_last_row(shape: tuple[int, ...], level: float, dtype: str, stream: Stream) -> Reals:
    """Return normal values with a far larger last row. Without it, a sum over many rows hides a missing last row."""
    values = _normal(shape, level, dtype, stream)
    values[-1:] = np.ldexp(values[-1:], _steps(dtype, 16))
    return values


def _shifted(shape: tuple[int, ...], level: float, dtype: str, stream: Stream) -> Reals:
    """Return normal values around a large mean. If the mean were about 0, an error in it would hardly show."""
    return level + _normal(shape, level, dtype, stream) / 8.0


NANS = "NaN"
"""The recipe that makes all values NaN and so hides every failure that only changes values."""
LAST_ROW = "last row"
"""The recipe that best shows which elements an output without rows leaves out."""
RANDOM = ("normal", "large", "tiny")
"""The recipes of this module whose rounding errors are random."""
_LIKE_GIVEN: Mapping[str, Like] = {
    "ones": lambda shape, level, dtype, stream: np.full(shape, level),
    "integers": lambda shape, level, dtype, stream: np.resize(np.arange(1.0, 8.0), shape) * level,
    "normal": _normal,
    "shifted": _shifted,
    "large": _scaled(30),
    "tiny": _scaled(-30),
    "zeros": lambda shape, level, dtype, stream: np.zeros(shape),
    "one NaN": _ending(lambda level: np.nan),
    "one infinity": _ending(lambda level: np.inf),
    "spike": _ending(lambda level: level * 256.0),
    LAST_ROW: _large_last_row,
    NANS: lambda shape, level, dtype, stream: np.full(shape, np.nan),
}
"""Recipes for values of about the size of the given ones, by name."""
VALUES = (GIVEN, *(name for name in _LIKE_GIVEN if name != NANS))
"""All recipes that start from given values."""
_NO_NUMBER = ("one NaN", "one infinity")
UNEVEN = ("normal", "large", "tiny", "one NaN", "one infinity", "spike")
"""Recipes whose neighbouring values always differ, so that an overwritten element shows."""


def judged_values(contract: Contract, recipes: Sequence[str] = VALUES) -> tuple[str, ...]:
    """Return the recipes with which kernels of the contract can be judged. If the contract leaves NaN and infinite
    elements unspecified, a recipe with one of them in each row would tell nothing."""
    return tuple(each for each in recipes if contract.nonfinite != "unspecified" or each not in _NO_NUMBER)


Plainer = Callable[[Reals], Reals]
_OUTLIER = 16.0
"""An element is an outlier if its magnitude is this many times above or below the median. Chosen."""


def _levels(values: Reals) -> Reals:
    """Return, in place of each element, the power of two at or below the root mean square of its row."""
    finite = np.where(np.isfinite(values), values, 0.0)
    largest = np.abs(finite).max(axis=-1, keepdims=True, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)  # squares of the largest numbers would overflow
    roots = scale * np.sqrt(np.mean(np.square(finite / scale), axis=-1, keepdims=True)) if values.size else scale
    return np.broadcast_to(_power(roots), values.shape).copy()


def _outliers(values: Reals) -> Reals:
    """Return ones in place of ordinary elements; zeros, outliers, infinities and NaN become powers of two, see
    `_power`."""
    finite = np.abs(values[np.isfinite(values)])
    middle = float(np.median(finite)) if finite.size else 1.0
    ordinary = np.isfinite(values) & (np.abs(values) < _OUTLIER * middle) & (np.abs(values) > middle / _OUTLIER)
    return np.where(ordinary, 1.0, _power(values))


def _power(values: Reals) -> Reals:
    """Return the power of two at or below each magnitude, with its sign. Zeros, infinities and NaNs stay."""
    ordinary = np.isfinite(values) & (values != 0)
    exponents = np.frexp(np.where(ordinary, values, 1.0))[1] - 1
    return np.where(ordinary, np.copysign(np.ldexp(1.0, exponents), values), values)


def _short(values: Reals) -> Reals:
    """Return the values rounded to four bits of mantissa."""
    ordinary = np.isfinite(values)
    fractions, exponents = np.frexp(np.where(ordinary, values, 0.0))
    return np.where(ordinary, np.ldexp(np.rint(fractions * 16.0) / 16.0, exponents), values)


PLAIN: Mapping[str, Plainer] = {
    "ones": np.ones_like,
    "integers": lambda values: np.resize(np.arange(1.0, 8.0), values.shape),
    "levels": _levels,
    "outliers": _outliers,
    "powers": _power,
    "short": _short,
}
"""Functions that make values plain, the plainest first."""
DRAWN = "drawn"
"""The kind that leaves values as drawn."""
KINDS = (*PLAIN, DRAWN)


def plain(kind: str, values: Values, dtype: str) -> Values:
    """Return plain values of that kind in place of the values, rounded to the dtype. The last axis is the row."""
    if kind == DRAWN:
        return values
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are ordinary values here
        return quantise(PLAIN[kind](values.astype(np.float64)), dtype)
