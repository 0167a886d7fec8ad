"""Storage dtypes of tensors as NumPy sees them, and how values of the floating-point ones are rounded into them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import form
from oracles.operand import INTEGERS
from oracles.rounding import round_to

NUMPY_DTYPE: Mapping[str, np.dtype[np.generic]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int8": np.dtype(np.int8),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
}

LARGEST: Mapping[str, float] = {
    "f16": 65504.0,
    "bf16": 2.0**128 - 2.0**120,
    "f32": 2.0**128 - 2.0**104,
    "f64": float(np.finfo(np.float64).max),
}
_RANGES: Mapping[str, tuple[int, int]] = {
    "bool": (0, 1),
    "int8": (-(2**7), 2**7 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**53), 2**53),
}
"""The integers of each dtype, as far as float64 has every one of them."""
SMALLEST_NORMAL: Mapping[str, float] = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}


def quantise(values: NDArray[np.float64], dtype: str) -> NDArray[np.generic]:
    """Round to nearest even into `dtype`; a finite value beyond its range becomes its largest number. Of integers no
    larger ones than 2**53 are drawn, and what is no number becomes 0."""
    if dtype in INTEGERS:
        least, most = _RANGES[dtype]
        whole = np.clip(np.rint(np.nan_to_num(values, posinf=0.0, neginf=0.0)), least, most)
        return whole.astype(NUMPY_DTYPE[dtype])
    if dtype == "f64":
        return values.copy()
    largest = LARGEST[dtype]
    bounded = np.asarray(np.minimum(np.maximum(values, -largest), largest))
    np.copyto(bounded, values, where=~np.isfinite(values))
    if dtype == "bf16":
        # The cast of ml_dtypes goes through float32 in some versions, and would round twice.
        bounded = round_to(bounded, form("bf16"))
    return bounded.astype(NUMPY_DTYPE[dtype])


def from_bits(bits: bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """The logical array that little-endian `bits` encode."""
    return np.frombuffer(bits, dtype=NUMPY_DTYPE[dtype]).reshape(shape)


def decimal(value: float, dtype: str) -> str:
    """The shortest decimal number that is `value` again where it is rounded to `dtype`."""
    if dtype in INTEGERS:
        return str(int(value))
    if dtype == "f64" or not math.isfinite(value):
        return repr(value).removesuffix(".0")
    shown = (f"{value:.{digits}g}" for digits in range(1, _MOST_DIGITS + 1))
    return next(text for text in shown if round_to(np.array([float(text)]), form(dtype))[0] == value)


_MOST_DIGITS = 9
"""The digits that tell any two numbers of f32 apart, and of formats with fewer bits."""
