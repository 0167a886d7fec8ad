"""The dtypes of tensors in NumPy, and how values are rounded to them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import DOUBLE, DTYPES, FORMATS, INTEGERS, Integer, form
from oracles.rounding import NATIVE, STORAGE, round_to

NUMPY_DTYPE: Mapping[str, np.dtype[np.generic]] = {
    name: STORAGE[name] if name in FORMATS else np.dtype(each.spelling) for name, each in DTYPES.items()
}
assert all(dtype.itemsize == DTYPES[name].itemsize for name, dtype in NUMPY_DTYPE.items())

_WHOLE = 2**53
"""The largest integer up to which float64 has every integer. Larger ones are not drawn."""


def quantise(values: NDArray[np.float64], dtype: str) -> NDArray[np.generic]:
    """Return the values rounded to nearest even in `dtype`. Finite values beyond its range become its largest number,
    and so do infinities if it has none. NaN becomes 0 in an integer dtype."""
    kind = DTYPES[dtype]
    if isinstance(kind, Integer):
        whole = np.rint(np.nan_to_num(values, posinf=0.0, neginf=0.0))
        found: NDArray[np.generic] = np.clip(whole, max(kind.lowest, -_WHOLE), min(kind.highest, _WHOLE))
        return found.astype(NUMPY_DTYPE[dtype])
    largest = FORMATS[dtype].max
    bounded = np.asarray(np.minimum(np.maximum(values, -largest), largest))
    if FORMATS[dtype].infinities:
        np.copyto(bounded, values, where=~np.isfinite(values))
    if dtype not in NATIVE:  # some versions of ml_dtypes cast through float32, and would round twice
        bounded = round_to(bounded, FORMATS[dtype])
    stored: NDArray[np.generic] = bounded.astype(NUMPY_DTYPE[dtype])
    return stored


def from_bits(bits: bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return the logical array that little-endian `bits` encode."""
    return np.frombuffer(bits, dtype=NUMPY_DTYPE[dtype]).reshape(shape)


def numbers(bits: bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return the logical array of these bits. All NaNs become the same quiet NaN, so that NumPy does not warn."""
    values = from_bits(bits, dtype, shape)
    if dtype in INTEGERS:
        return values
    with np.errstate(invalid="ignore"):
        where = np.isnan(values)
    return np.where(where, values.dtype.type(np.nan), values) if where.any() else values


def nans(dtype: str, words: NDArray[np.uint64], *, quiet: bool = False) -> NDArray[np.generic]:
    """Return an array with a random NaN for each random word: the usual one, one with all bits set, or any other; with
    `quiet`, no signalling one."""
    form = FORMATS[dtype]
    first, size = 1 << max(form.precision - 2, 0), np.uint64(1)
    sign, kind, rest = words & size, (words >> size) % np.uint64(6), words >> np.uint64(8)
    below = np.uint64(first - 1)
    some = rest & below
    mantissas = [first, 2 * first - 1, 1, first - 1, np.maximum(some, size) & below, first + some]
    mantissa = np.choose(kind.astype(np.int64), [np.asarray(each, np.uint64) for each in mantissas])
    if quiet:
        mantissa |= np.uint64(first)
    if not form.infinities or first == 1:  # the format has only one NaN
        mantissa = np.full_like(words, 2 * first - 1)
    exponent = (1 << 8 * form.itemsize - form.precision) - 1
    found = sign << np.uint64(8 * form.itemsize - 1) | np.uint64(exponent << form.precision - 1) | mantissa
    held: NDArray[np.generic] = found.astype(f"<u{form.itemsize}").view(NUMPY_DTYPE[dtype])
    return held


def decimal(value: float, dtype: str) -> str:
    """Return the shortest decimal number that becomes `value` when rounded to `dtype`."""
    if dtype in INTEGERS:
        return str(int(value))
    if form(dtype) is DOUBLE or not math.isfinite(value):
        return repr(value).removesuffix(".0")
    shown = (f"{value:.{digits}g}" for digits in range(1, _MOST_DIGITS + 1))
    text = next(text for text in shown if round_to(np.array([float(text)]), form(dtype))[0] == value)
    return min(f"{float(text):.{_MOST_DIGITS}g}", text, key=len)  # 100 rather than 1e+02


def shortest(value: float) -> str:
    """Return the shortest decimal number that rounds to `value` in float32, in which kernels get parameters. If float32
    does not have `value`, return nine digits."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value)) == value
    return decimal(value, "f32") if single else f"{value:.{_MOST_DIGITS}g}"


_MOST_DIGITS = 9
"""The number of digits that tell any two numbers of f32, or of a narrower format, apart."""
