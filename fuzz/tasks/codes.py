"""Formats of floats by their bits: which number each code stands for, and which code a number becomes.

The rows hold formats that are no dtypes of the ops, too. Numbers are found by formulas of IEEE 754's fields alone, not
by casts of a library, whose results are what is judged here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.lazy import lazy

Codes = NDArray[np.uint64]
"""The bits of numbers, each in the low bits of 64."""
Rounding = Literal["even", "away", "towards zero", "upward"]
Specials = Literal["ieee", "fn", "fnuz", "finite", "scale"]
"""What the codes beyond the numbers are: infinities and NaNs as in IEEE 754; one NaN of all bits; one NaN in the place
of the negative zero; nothing; or one NaN in a format of powers of two without sign and zero."""


@dataclass(frozen=True)
class Coded:
    """A format of floats: a sign, exponent bits and mantissa bits."""

    name: str
    spelling: str
    """The name in NumPy or ml_dtypes, and in torch if torch has the format."""
    bits: int
    exponent: int
    """The number of exponent bits."""
    specials: Specials = "ieee"
    shift: int = 0
    """What the offset of the exponent has beyond the usual one, 2^(bits - 1) - 1."""

    @property
    def size(self) -> int:
        """The bytes in which one code is stored alone."""
        return max(self.bits, 8) // 8

    @property
    def signed(self) -> bool:
        return self.specials != "scale"

    @property
    def mantissa(self) -> int:
        return self.bits - self.exponent - self.signed

    @property
    def offset(self) -> int:
        return (1 << self.exponent - 1) - 1 + self.shift

    @property
    def largest(self) -> int:
        """The code of the largest number. Codes of magnitudes ascend with them."""
        codes = 1 << self.bits - self.signed
        return {"ieee": codes - (1 << self.mantissa), "fn": codes - 1, "scale": codes - 1}.get(self.specials, codes) - 1

    @lazy
    def most(self) -> float:
        """Return the largest number."""
        return float(self.sizes(np.array([self.largest], np.uint64))[0])

    @lazy
    def tiny(self) -> float:
        """Return the smallest normal number."""
        return float(self.sizes(np.array([1 << self.mantissa if self.signed else 0], np.uint64))[0])

    @property
    def infinity(self) -> int | None:
        return self.largest + 1 if self.specials == "ieee" else None

    @property
    def nan(self) -> int | None:
        """The code of the usual NaN, which is quiet; None if the format has none."""
        after = self.largest + 1
        return {"ieee": after | self.quiet, "fnuz": 1 << self.bits - 1, "finite": None}.get(self.specials, after)

    @property
    def quiet(self) -> int:
        """The first bit of the mantissa, which quiet NaNs have; 0 in a format with one NaN."""
        return 1 << self.mantissa - 1 if self.specials == "ieee" else 0

    @property
    def sign(self) -> int:
        """The bit of the sign; 0 in a format without."""
        return 1 << self.bits - 1 if self.signed else 0

    def is_nan(self, codes: Codes) -> NDArray[np.bool_]:
        if self.specials in ("fnuz", "scale"):
            return np.asarray(codes == np.uint64(self.nan or 0))
        return np.asarray(self.unsigned(codes) > np.uint64(self.largest + (self.specials == "ieee")))

    def unsigned(self, codes: Codes) -> Codes:
        return codes & ~np.uint64(self.sign)

    def sizes(self, codes: Codes) -> F64:
        """Return the magnitudes that codes without sign stand for. The first one beyond the largest number has the one
        that would follow."""
        field = (codes >> np.uint64(self.mantissa)).astype(np.int64)
        rest = (codes & np.uint64((1 << self.mantissa) - 1)).astype(np.int64)
        normal = (field > 0) | (self.specials == "scale")
        whole = np.where(normal, rest + (1 << self.mantissa), rest)
        with np.errstate(over="ignore"):
            sizes: F64 = np.ldexp(whole.astype(np.float64), np.where(normal, field, 1) - self.offset - self.mantissa)
        return sizes

    def numbers(self, codes: Codes) -> F64:
        """Return what codes stand for."""
        size = self.unsigned(codes)
        found = np.where(size > np.uint64(self.largest), np.inf, self.sizes(size))
        found = np.where(codes & np.uint64(self.sign), -found, found)
        return np.where(self.is_nan(codes), np.nan, found)

    def below(self, sizes: F64) -> Codes:
        """Return the code of the largest number that is at most each finite magnitude, or of the least one."""
        part, exponent = np.frexp(sizes)
        field = np.where(sizes > 0.0, exponent.astype(np.int64) - 1 + self.offset, -1)
        with np.errstate(over="ignore"):
            steps = np.ldexp(sizes, np.int64(self.offset + self.mantissa - 1))
        whole = np.floor(np.ldexp(2.0 * part - 1.0, self.mantissa)).astype(np.int64)
        above = np.clip(field, 0, 1 << self.exponent) << self.mantissa
        subnormal = (field < 1) & (self.specials != "scale")
        least = np.floor(np.where(subnormal, steps, 0.0)).astype(np.int64)
        found = np.where(subnormal, least, np.where(field < 0, 0, above + whole))
        return np.minimum(found, self.largest).astype(np.uint64)


@dataclass(frozen=True)
class Between:
    """Finite magnitudes among the numbers of a format."""

    form: Coded
    low: Codes
    """The code of the number below, or the largest one's."""
    rest: F64
    """How far a magnitude is above that number: exact, as both are multiples of the same power of two."""
    gap: F64
    """How far the next number is."""

    @property
    def is_tie(self) -> NDArray[np.bool_]:
        """The mask of magnitudes half-way. Half of the least gap of f64 is no number."""
        return np.asarray(self.rest == self.gap - self.rest)

    def rounded(self, ties: Rounding, negative: NDArray[np.bool_]) -> Codes:
        """Return codes of magnitudes; numbers that are too large have the one after the largest number's."""
        past = self.rest >= self.gap
        left = self.gap - self.rest
        up = {
            "even": (self.rest > left) | self.is_tie & (self.low % np.uint64(2) == 1), "away": self.rest >= left,
            "towards zero": past, "upward": past | (self.rest > 0.0) & ~negative,
        }[ties]  # fmt: skip
        codes: Codes = self.low + up.astype(np.uint64)
        return codes


def between(wide: F64, form: Coded) -> Between:
    """Return where the magnitudes of finite numbers lie; others count as 0."""
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    low = form.below(size)
    under = form.sizes(low)
    return Between(form, low, size - under, form.sizes(low + np.uint64(1)) - under)


_ROWS: Sequence[Coded] = (
    Coded("f64", "float64", 64, 11),
    Coded("f32", "float32", 32, 8),
    Coded("f16", "float16", 16, 5),
    Coded("bf16", "bfloat16", 16, 8),
    Coded("e5m2", "float8_e5m2", 8, 5),
    Coded("e4m3fn", "float8_e4m3fn", 8, 4, "fn"),
    Coded("e5m2fnuz", "float8_e5m2fnuz", 8, 5, "fnuz", 1),
    Coded("e4m3fnuz", "float8_e4m3fnuz", 8, 4, "fnuz", 1),
    Coded("e4m3b11fnuz", "float8_e4m3b11fnuz", 8, 4, "fnuz", 4),
    Coded("e4m3", "float8_e4m3", 8, 4),
    Coded("e3m4", "float8_e3m4", 8, 3),
    Coded("e8m0", "float8_e8m0fnu", 8, 8, "scale"),
    Coded("e3m2", "float6_e3m2fn", 6, 3, "finite"),
    Coded("e2m3", "float6_e2m3fn", 6, 2, "finite"),
    Coded("e2m1", "float4_e2m1fn", 4, 2, "finite"),
)
CODED: Mapping[str, Coded] = {each.name: each for each in _ROWS} | {each.spelling: each for each in _ROWS}
"""The formats by their names in reports, and by those in torch, NumPy and ml_dtypes."""
KNOWN = tuple(each.name for each in _ROWS)


def storage(form: Coded) -> np.dtype[Any]:
    """Return the dtype of NumPy or ml_dtypes in which one number of a format is stored."""
    dtype: np.dtype[Any] = np.dtype(getattr(np, form.spelling, None) or getattr(ml_dtypes, form.spelling))
    return dtype


def read(data: bytes, form: Coded) -> Codes:
    """Return the codes that stand in bytes, each in as many of them as one alone needs."""
    return np.frombuffer(data, f"<u{form.size}").astype(np.uint64)


def pairs(codes: Codes) -> NDArray[np.uint8]:
    """Return codes of 4 bits two by two in bytes, the first in the low half."""
    return (codes[..., 0::2] | codes[..., 1::2] << np.uint64(4)).astype(np.uint8)


def unpaired(packed: NDArray[Any]) -> Codes:
    """Return the codes of 4 bits that stand two by two in bytes."""
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1).astype(np.uint64)
