"""The dtypes of tensors as a table with one row for each. The module imports neither NumPy nor mpmath.

All other facts about dtypes follow from these rows: dtypes of NumPy and torch, the `kf_dtype` of C, the ranges of
recipes, the names in declarations. The import of this module fails if a row contradicts itself, and that of
`oracles.rounding` if a row contradicts NumPy or ml_dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from oracles.lazy import lazy


class DtypeError(ValueError):
    """A dtype name that no row has, or a row that contradicts itself. The message starts with the name at fault."""


@dataclass(frozen=True, eq=False)
class Dtype:
    """A dtype of tensors. There is one object for each dtype, so that dtypes are compared by identity."""

    name: str
    """The name in cases, declarations and contracts; in C it is `KF_` and this name in capitals."""
    spelling: str
    """The name in NumPy or ml_dtypes, and in torch if torch has the dtype."""
    itemsize: int
    """The size of one number in bytes."""


Ties = Literal["even", "away", "towards zero"]


@dataclass(frozen=True, eq=False)
class Format(Dtype):
    """A binary floating-point format: one bit of sign, then exponent and mantissa as in IEEE 754, with gradual
    underflow, NaN and zeros of either sign."""

    precision: int
    """The number of significant bits, the hidden one included."""
    emin: int
    """The exponent of the smallest normal number, 2^emin."""
    max: float
    """The largest finite number."""
    infinities: bool = True
    """Whether the format has infinities. If not, as e4m3fn, overflow becomes NaN."""
    ties: Ties = "even"
    """The rounding of ties; "towards zero" if a cast cuts bits off instead of rounding to nearest."""

    def __post_init__(self) -> None:
        """Raise DtypeError if the largest number does not follow from the size, the precision and `emin`."""
        exponents = 2 ** (8 * self.itemsize - self.precision)  # of the bits beside sign and mantissa
        # Infinities and NaN have the highest exponent; without infinities only its highest mantissa is NaN.
        emax = self.emin + exponents - (3 if self.infinities else 2)
        largest = math.ldexp(2**self.precision - (1 if self.infinities else 2), emax - self.precision + 1)
        if self.max != largest:
            is_next = not self.infinities and self.max == largest + math.ldexp(1.0, emax - self.precision + 1)
            why = ", which is that of a format without a negative zero: no row can say that" if is_next else ""
            raise DtypeError(f"{self.name}: its largest number is {largest}, by its bits, and not {self.max}{why}")

    def holds(self, other: Format) -> bool:
        """Whether this format has all numbers of another format."""
        return self.precision >= other.precision and self.emin <= other.emin and self.max >= other.max

    @property
    def only_stores(self) -> bool:
        """Whether kernels only store numbers in this format and calculate in another: true of formats of 8 bits."""
        return self.itemsize == 1

    @lazy
    def emax(self) -> int:
        """Return the exponent of the largest number, which is less than 2^(emax + 1)."""
        return math.frexp(self.max)[1] - 1

    @lazy
    def least(self) -> int:
        """Return the exponent of the smallest positive number, 2^least, which is the spacing of subnormal numbers,
        too."""
        return self.emin - self.precision + 1

    @lazy
    def u(self) -> float:
        """Return the unit roundoff: the largest relative error of rounding a number in the normal range."""
        return 2.0**-self.precision * (2 if self.ties == "towards zero" else 1)

    @lazy
    def tiny(self) -> float:
        """Return the smallest normal number."""
        return 2.0**self.emin

    @lazy
    def eta(self) -> float:
        """Return the smallest positive number, which is also the spacing of the subnormal numbers."""
        return 2.0**self.least

    @lazy
    def overflow(self) -> tuple[int, int]:
        """Return the smallest magnitude that rounds past `max`, as (mantissa, exponent) for mantissa * 2^exponent: for
        f64 no float64 holds that magnitude."""
        fraction, exponent = math.frexp(self.max)
        mantissa = int(math.ldexp(fraction, self.precision))
        return 2 * mantissa + (2 if self.ties == "towards zero" else 1), exponent - self.precision - 1

    @lazy
    def limit(self) -> float:
        """Return the overflow threshold as a float; inf if float64 cannot hold it."""
        mantissa, exponent = self.overflow
        try:
            return math.ldexp(float(mantissa), exponent)
        except OverflowError:
            return math.inf

    @lazy
    def endless(self) -> Format:
        """Return this format with a larger range of exponents, which ends where float64 would overflow."""
        if self.name == DOUBLE.name:
            return self
        most = math.ldexp(2 - 2.0 ** (1 - self.precision), _ENDLESS)
        return Endless(self.name, self.spelling, self.itemsize, self.precision, self.emin, most, True, self.ties)


@dataclass(frozen=True, eq=False)
class Endless(Format):
    """A format without overflow. No tensor has it: it gives the values that formulas would have without overflow."""

    def __post_init__(self) -> None:
        """Skip the check of `Format`: here the largest number does not follow from the number of bits."""


_ENDLESS = 960
"""The largest exponent of a format without overflow: the products by which `oracles.rounding` rounds its numbers do not
overflow in float64."""


@dataclass(frozen=True, eq=False)
class CutFormat(Format):
    """A format with fewer bits than the dtype in which its numbers are stored, as tensor cores read f32. No tensor or
    result has it: factors are rounded to it when they are multiplied."""

    def __post_init__(self) -> None:
        """Skip the check of `Format`: the exponent has as many bits as in the whole dtype."""


@dataclass(frozen=True, eq=False)
class Integer(Dtype):
    """A dtype of integers: places along a dimension, flags, or codes."""

    lowest: int
    highest: int


_ROWS: Sequence[Dtype] = (
    Format("f32", "float32", 4, 24, -126, float.fromhex("0x1.fffffep127")),
    Format("f16", "float16", 2, 11, -14, 65504.0),
    Format("bf16", "bfloat16", 2, 8, -126, float.fromhex("0x1.fep127")),
    Format("f64", "float64", 8, 53, -1022, float.fromhex("0x1.fffffffffffffp1023")),
    Format("e4m3fn", "float8_e4m3fn", 1, 4, -6, 448.0, infinities=False),
    Format("e5m2", "float8_e5m2", 1, 3, -14, 57344.0),
    Integer("int8", "int8", 1, -(2**7), 2**7 - 1),
    Integer("int32", "int32", 4, -(2**31), 2**31 - 1),
    Integer("int64", "int64", 8, -(2**63), 2**63 - 1),
    Integer("bool", "bool", 1, 0, 1),
    Integer("uint8", "uint8", 1, 0, 2**8 - 1),
    Integer("int16", "int16", 2, -(2**15), 2**15 - 1),
)
"""The dtypes, the plainest first. Add new rows at the end: the row numbers, from 1, are the values of `kf_dtype`."""
DTYPES: Mapping[str, Dtype] = {each.name: each for each in _ROWS}
"""Every dtype that a tensor can have, by name."""
SPELLED: Mapping[str, Dtype] = {each.spelling: each for each in _ROWS}
"""Dtypes by the names that NumPy and torch give them, such as "bfloat16"."""
assert len(DTYPES) == len(SPELLED) == len(_ROWS), "two rows of one dtype"
FORMATS: Mapping[str, Format] = {name: each for name, each in DTYPES.items() if isinstance(each, Format)}
"""The floating-point formats."""
SINGLE, DOUBLE = FORMATS["f32"], FORMATS["f64"]
"""The format in which kernels calculate by default, and the format of this oracle's fast tier."""
_TIES: Mapping[str, Ties] = {"tf32": "away", "tf32 to even": "even", "tf32 towards zero": "towards zero"}
CUTS: Mapping[str, Format] = {
    name: CutFormat(name, "", SINGLE.itemsize, 11, SINGLE.emin, float.fromhex("0x1.ffcp127"), ties=ties)
    for name, ties in _TIES.items()
}
"""Further formats, variants of TF32, to which locals may be rounded at a point: rounded as `cvt.rna.tf32` does, rounded
to nearest even, or cut off as by tensor cores, which ignore the last 13 bits of f32."""
FLOATS = tuple(FORMATS)
COMPUTED = tuple(name for name, each in FORMATS.items() if not each.only_stores)
"""The names of the formats that kernels calculate in."""
NARROW = tuple(name for name in COMPUTED if FORMATS[name].precision < SINGLE.precision)
"""The dtypes with fewer bits than f32, in which most kernels calculate."""
INTEGERS = tuple(name for name, each in DTYPES.items() if isinstance(each, Integer))
INDICES = tuple(name for name in INTEGERS if DTYPES[name].itemsize > 2)
"""The integer dtypes of places along a dimension, of 32 bits and more: most dimensions are longer than 8 bits can
count, and torch takes no index of 16 bits."""
CODED = tuple(name for name in INTEGERS if name not in INDICES and name != "bool")
"""The integer dtypes whose values are numbers unless declared otherwise, such as the codes of a quantised row."""
ITEMSIZE: Mapping[str, int] = {name: each.itemsize for name, each in DTYPES.items()}
"""The bytes of one element of each dtype."""


def judged(name: str, field: str = "dtype") -> Format:
    """Return the format in which values of a dtype are compared, which is f64 for integers. Raises `DtypeError`, which
    names `field`, for an unknown dtype."""
    return DOUBLE if isinstance(DTYPES.get(name), Integer) else form(name, field)


def form(name: str, field: str = "dtype") -> Format:
    """Return the format called `name`. Raises `DtypeError`, which names `field`, if there is none."""
    try:
        return FORMATS[name]
    except KeyError:
        raise DtypeError(f"{field}: unknown dtype {name!r}; known: {', '.join(FORMATS)}") from None


def point_form(name: str) -> Format:
    """Return the format called `name` to which a local may be rounded at a point, a dtype or one of `CUTS`. Raises
    `DtypeError`."""
    return CUTS[name] if name in CUTS else form(name)
