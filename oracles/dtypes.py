"""Floating-point formats as data. Imports neither NumPy nor mpmath."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from oracles.lazy import lazy


class DtypeError(ValueError):
    """A dtype name that the oracle does not know. The message starts with the name of the field at fault."""


@dataclass(frozen=True, eq=False)
class Format:
    """A binary floating-point format with gradual underflow. There is one of each, told from others by its identity."""

    name: str
    itemsize: int
    """The size of one number in bytes."""
    precision: int
    """The number of significant bits, the hidden one included."""
    emin: int
    """The exponent of the smallest normal number, 2^emin."""
    max: float
    """The largest finite number."""
    infinities: bool = True
    """False: the format has NaN but no infinity (e4m3), so what overflows becomes NaN."""

    def holds(self, other: Format) -> bool:
        """Whether it has all numbers of another format."""
        return self.precision >= other.precision and self.emin <= other.emin and self.max >= other.max

    @lazy
    def u(self) -> float:
        """Unit roundoff: largest relative error of rounding to nearest a number in the normal range."""
        return 2.0**-self.precision

    @lazy
    def tiny(self) -> float:
        """Smallest normal number."""
        return 2.0**self.emin

    @lazy
    def eta(self) -> float:
        """Spacing of the subnormal numbers; also the smallest positive one."""
        return 2.0 ** (self.emin - self.precision + 1)

    @lazy
    def half_eta(self) -> float:
        """Largest absolute error of a rounding that underflows. In f64 this underflows itself and is rounded up."""
        return self.eta / 2 or self.eta

    @lazy
    def overflow(self) -> tuple[int, int]:
        """Smallest magnitude that rounds past `max`, as (mantissa, exponent): mantissa * 2^exponent.

        A pair because in f64 the number itself is not representable.
        """
        mantissa, exponent = _integer(self.max, self.precision)
        return 2 * mantissa + 1, exponent - 1

    @lazy
    def limit(self) -> float:
        """The same as a float; inf where it is none."""
        mantissa, exponent = self.overflow
        try:
            return math.ldexp(float(mantissa), exponent)
        except OverflowError:
            return math.inf


def _integer(value: float, precision: int) -> tuple[int, int]:
    """`value` as (mantissa, exponent) with a mantissa of `precision` bits."""
    numerator, denominator = value.as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length() + 1 - precision
    mantissa = numerator >> exponent if exponent >= 0 else numerator << -exponent
    return mantissa, exponent


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format("f64", 8, 53, -1022, float.fromhex("0x1.fffffffffffffp1023")),
        Format("f32", 4, 24, -126, float.fromhex("0x1.fffffep127")),
        Format("f16", 2, 11, -14, 65504.0),
        Format("bf16", 2, 8, -126, float.fromhex("0x1.fep127")),
        Format("e4m3", 1, 4, -6, 448.0, infinities=False),
        Format("e5m2", 1, 3, -14, 57344.0),
    )
}


def form(name: str, field: str = "dtype") -> Format:
    """The format called `name`. Raises `DtypeError` naming `field`."""
    try:
        return FORMATS[name]
    except KeyError:
        raise DtypeError(f"{field}: unknown dtype {name!r}; known: {', '.join(FORMATS)}") from None
