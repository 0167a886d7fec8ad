"""Rounding of float64 arrays to a narrower format, and of mpmath numbers to any format: to nearest with ties to even,
unless the format has other ties. The two share no code, because the precise tier checks the fast tier."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, Real, sticky, two_sum
from oracles.dtypes import DOUBLE, DTYPES, FORMATS, DtypeError, Endless, Format


def stored(form: Format) -> np.dtype[Any]:
    """Return the NumPy dtype of a format. Raises DtypeError if the row contradicts the library."""
    library: Any = next((each for each in (np, ml_dtypes) if hasattr(each, form.spelling)), None)
    if library is None:
        raise DtypeError(f"{form.name}: neither NumPy nor ml_dtypes {ml_dtypes.__version__} has {form.spelling}")
    dtype: np.dtype[Any] = np.dtype(getattr(library, form.spelling))
    limits: Any = library.finfo(dtype)
    with np.errstate(all="ignore"):
        infinity = np.array(np.inf).astype(dtype).astype(np.float64)
    known = dtype.itemsize, limits.nmant + 1, float(limits.smallest_normal), float(limits.max), bool(np.isinf(infinity))
    if known != (form.itemsize, form.precision, form.tiny, form.max, form.infinities):
        raise DtypeError(f"{form.name}: its row differs from {form.spelling}, which has {known}")
    return dtype


STORAGE: Mapping[str, np.dtype[Any]] = {name: stored(each) for name, each in FORMATS.items()}
"""The NumPy dtype in which values of each format are stored."""
NAMES: Mapping[np.dtype[Any], str] = {dtype: name for name, dtype in STORAGE.items()}
"""The format name of each NumPy dtype."""
NATIVE: Mapping[str, np.dtype[Any]] = {name: dtype for name, dtype in STORAGE.items() if hasattr(np, dtype.name)}
"""The formats that NumPy itself has, whose casts round once."""


def stored_as(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype in which values of a format, or of an integer dtype, are stored."""
    return STORAGE[name] if name in STORAGE else np.dtype(DTYPES[name].spelling)


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether a tensor may have this dtype: a format, or an integer dtype."""
    return dtype in NAMES or dtype.kind in "biu"


def name_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a format, or NumPy's name of an integer dtype. Raises KeyError for other dtypes."""
    return dtype.name if dtype.kind in "biu" else NAMES[dtype]


_EXPONENT = np.int64(0x7FF0 << 48)
"""The exponent bits of a float64: they alone are the power of two at or below the magnitude of a normal number."""


def round_to(values: Real, form: Format) -> F64:
    """Return `values` rounded once in `form`, as float64 (any shape). Overflow becomes inf, also in formats without
    infinity.

    The casts of ml_dtypes are not used, because some of their versions go through float32 and round twice; NumPy's own
    casts round once.
    """
    if isinstance(values, DoubleDouble):
        return values.high if form is DOUBLE else round_to(sticky(values), form)
    if form is DOUBLE:
        return values
    if (native := NATIVE.get(form.name)) is not None and not isinstance(form, Endless):
        with np.errstate(over="ignore", under="ignore"):
            return values.astype(native).astype(np.float64)
    return _round_generic(values, form) if form.ties == "even" else _cut(values, form)


def _cut(values: F64, form: Format) -> F64:
    """Return values cut towards zero to a format, or rounded to nearest if its ties are "away" from zero."""
    binade = np.maximum((values.view(np.int64) & _EXPONENT).view(np.float64), form.tiny)
    spacing = np.fmin(binade, 2.0**form.emax) * 2.0 ** (1 - form.precision)
    with np.errstate(invalid="ignore"):
        steps = values / spacing
        kept = np.trunc(steps)
        up = (form.ties == "away") & (np.abs(steps - kept) >= 0.5)
        rounded: F64 = np.copysign((kept + np.where(up, np.copysign(1.0, values), 0.0)) * spacing, values)
        return np.where(np.abs(rounded) > form.max, np.copysign(np.inf, rounded), rounded)


def add_rounded(a: F64, b: F64 | float, form: Format) -> F64:
    """Return a + b rounded once to nearest even in `form`; float64 alone would round twice."""
    exact = two_sum(a, np.asarray(b, dtype=np.float64))
    return np.where(np.isfinite(exact.high), round_to(exact, form), exact.high)


def _round_generic(values: F64, form: Format) -> F64:
    """Return values rounded to a format by adding a number 2^52 times as large as its spacing, which rounds once."""
    least, most = form.tiny, 2.0 ** (math.frexp(form.max)[1] - 1)
    binade = np.clip((values.view(np.int64) & _EXPONENT).view(np.float64), least, most)
    large = binade * (1.5 * 2.0**53 * form.u)
    with np.errstate(invalid="ignore"):
        rounded: F64 = np.copysign((values + large) - large, values)
        return np.where(np.abs(rounded) > form.max, np.copysign(np.inf, rounded), rounded)


def half_gap(values: F64, form: Format, upward: NDArray[np.bool_]) -> F64:
    """Return half the distance from each finite value of `form` to its neighbour, the next larger where `upward` is set
    and else the next smaller: the half of the rounding cell on that side."""
    binade = np.maximum((values.view(np.int64) & _EXPONENT).view(np.float64), form.tiny)
    # Below the magnitude of a power of two the spacing is half of that above.
    dense = (np.abs(values) == binade) & (upward == (values < 0)) & (binade > form.tiny)
    gap: F64 = binade * form.u
    return np.where(dense, gap / 2, gap)


def half_gaps(sizes: F64, form: Format, others: F64) -> F64:
    """Return half of the gap between magnitudes and their neighbours on the side of `others`. The side only matters for
    powers of two."""
    gaps = (sizes.view(np.int64) & _EXPONENT).view(np.float64)
    np.maximum(gaps, form.tiny, out=gaps)
    powers = np.flatnonzero(sizes == gaps)
    gaps *= form.u
    of_powers = sizes[powers]
    gaps[powers[(others[powers] <= of_powers) & (of_powers > form.tiny)]] /= 2
    return gaps


def half_gap_of(value: float, form: Format) -> float:
    """Return half of the gap between a value and the next smaller number, or inf if it is not finite; fast."""
    if not math.isfinite(value):
        return math.inf
    binade = max(math.ldexp(0.5, math.frexp(value)[1]), form.tiny) if value else form.tiny
    return binade * form.u / (2.0 if value == binade > form.tiny else 1.0)


def round_precise(value: mpmath.mpf, form: Format) -> float:
    """Return an mpmath number rounded in `form`, as a Python float (every format fits in one). Overflow becomes inf,
    also in formats without infinity."""
    sign, mantissa, exponent, bits = mpmath.mpf(value)._mpf_ if isinstance(value, float) else value._mpf_
    if not mantissa and exponent:  # infinite or NaN
        return float(value)
    mantissa = int(mantissa)
    quantum = max(exponent + bits - form.precision, form.emin - form.precision + 1)
    shift = quantum - exponent
    if shift > bits:  # below half of the smallest number; 2^shift may not fit into memory
        return -0.0 if sign else 0.0
    if shift > 0:
        quotient, rest = divmod(mantissa, 1 << shift)
        half = 1 << (shift - 1)
        mantissa = quotient + _is_up(form, rest - half, quotient)
        exponent = quantum
    limit, scale = form.overflow
    if mantissa and _at_least(mantissa, exponent, limit, scale):
        magnitude = float("inf")
    else:
        magnitude = math.ldexp(mantissa, exponent) if mantissa else 0.0
    return -magnitude if sign else magnitude


def _is_up(form: Format, beyond: int, quotient: int) -> bool:
    """Whether a magnitude `quotient` plus half a step plus `beyond`, which may be negative, is rounded up."""
    if form.ties == "towards zero":
        return False
    return beyond > 0 or (beyond == 0 and (form.ties == "away" or quotient % 2 == 1))


def _at_least(mantissa: int, exponent: int, limit: int, scale: int) -> bool:
    """Whether mantissa * 2^exponent >= limit * 2^scale, calculated in integers that stay small."""
    digits, most = exponent + mantissa.bit_length(), scale + limit.bit_length()
    if digits != most:
        return digits > most
    low = min(exponent, scale)
    return mantissa << (exponent - low) >= limit << (scale - low)


def bits(value: float, form: Format) -> str:
    """Return the bits of `value`, which must be representable in `form`, in hex: 0x3f800000."""
    if form is DOUBLE:
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
    stored = np.array(value, dtype=STORAGE[form.name])
    return f"0x{int.from_bytes(stored.tobytes(), 'little'):0{2 * form.itemsize}x}"
