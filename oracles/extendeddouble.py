"""Double-double numbers with an additional exponent: arrays of numbers of any magnitude. A number is a double-double
fraction times a power of two. Fractions lie in [1/2, 1), so that no product or quotient of fractions underflows.
Results have the bits that double-double would have if the range of float64 were unlimited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import DoubleDouble, chosen, of_ieee

I32 = NDArray[np.int32]
Mask = NDArray[np.bool_]

ZERO = -(1 << 29)
"""The exponent of zeros: smaller than any other, so that the sum of a zero and a number keeps the number's exponent."""
ORDINARY = 900
"""The k for which magnitudes between 2^-k and 2^k have the same results as in double-double."""


class ExtendedDouble:
    """Numbers `fraction` * 2^`exponent` of one shape; infinities and NaN are in the high part of the fraction."""

    def __init__(self, fraction: DoubleDouble, exponent: I32) -> None:
        self.fraction, self.exponent = fraction, exponent

    @staticmethod
    def of(value: DoubleDouble, exponent: Any = 0) -> ExtendedDouble:
        """Return `value` * 2^`exponent`; infinities and NaN have no low part."""
        high, moved = np.frexp(value.high)
        finite = np.isfinite(high)
        low = np.where(finite, np.ldexp(value.low, -moved), 0.0)
        own = np.where(finite, np.add(exponent, moved, dtype=np.int32), 0)
        return ExtendedDouble(DoubleDouble(high, low), np.where(high == 0, ZERO, own).astype(np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.exponent.shape

    @property
    def doubled(self) -> DoubleDouble:
        """Return the numbers in double-double. Beyond that range they become infinite or zero, or lose bits."""
        return self.in_units_of(0)

    def in_units_of(self, exponent: Any) -> DoubleDouble:
        """Return the numbers divided by 2^`exponent`, in double-double."""
        moved = self.exponent - np.asarray(exponent, np.int32)
        high = np.ldexp(self.fraction.high, moved)
        return DoubleDouble(high, np.where(np.isfinite(high), np.ldexp(self.fraction.low, moved), 0.0))

    def __getitem__(self, key: Any) -> ExtendedDouble:
        return ExtendedDouble(self.fraction[key], self.exponent[key])

    def __neg__(self) -> ExtendedDouble:
        return ExtendedDouble(-self.fraction, self.exponent)

    def __add__(self, other: ExtendedDouble) -> ExtendedDouble:
        exponent = np.maximum(self.exponent, other.exponent)
        a, b = self.in_units_of(exponent), other.in_units_of(exponent)
        return ExtendedDouble.of(of_ieee(a + b, a.high + b.high), exponent)

    def __sub__(self, other: ExtendedDouble) -> ExtendedDouble:
        return self + -other

    def __mul__(self, other: ExtendedDouble) -> ExtendedDouble:
        a, b = self.fraction, other.fraction
        return ExtendedDouble.of(of_ieee(a * b, a.high * b.high), self.exponent + other.exponent)

    def __truediv__(self, other: ExtendedDouble) -> ExtendedDouble:
        a, b = self.fraction, other.fraction
        return ExtendedDouble.of(of_ieee(a / b, a.high / b.high), self.exponent - other.exponent)

    def sum(self, axis: int) -> ExtendedDouble:
        """Return the sum along `axis`, added as a tree; the axis stays."""
        exponent = self.exponent.max(axis, keepdims=True, initial=ZERO)
        values = self.in_units_of(exponent)
        total = values.sum(axis)
        kept = DoubleDouble(np.expand_dims(total.high, axis), np.expand_dims(total.low, axis))
        return ExtendedDouble.of(of_ieee(kept, values.high.sum(axis, keepdims=True)), exponent)


def whichever(mask: Mask, a: ExtendedDouble, b: ExtendedDouble) -> ExtendedDouble:
    """Return `a` where the mask is set, else `b`; all of one shape."""
    return ExtendedDouble(chosen(mask, a.fraction, b.fraction), np.where(mask, a.exponent, b.exponent))


def ordinary(double: Callable[[DoubleDouble], DoubleDouble]) -> Callable[[ExtendedDouble], ExtendedDouble]:
    """Return a function for numbers of any magnitude from one for double-double, which must have the same value at all
    magnitudes below 2^-900 and the same at all above 2^900."""
    return lambda x: ExtendedDouble.of(double(x.doubled))


def proportional(
    double: Callable[[DoubleDouble], DoubleDouble], slope: Callable[[], DoubleDouble] | None = None
) -> Callable[[ExtendedDouble], ExtendedDouble]:
    """Return a function for numbers of any magnitude from one for double-double that is 0 at 0. Below 2^-900 the result
    is the argument times the slope at 0 (by default 1), with a relative error of 2^-900."""

    def value(x: ExtendedDouble) -> ExtendedDouble:
        small = x if slope is None else x * ExtendedDouble.of(slope())
        return whichever(x.exponent < -ORDINARY, small, ExtendedDouble.of(double(x.doubled)))

    return value


def whole(double: Callable[[DoubleDouble], DoubleDouble]) -> Callable[[ExtendedDouble], ExtendedDouble]:
    """Return a function for numbers of any magnitude from one for double-double with whole values, such as `floor`:
    above 2^900 arguments are their own values, below 2^-900 they have the value of 2^-900 with their sign."""

    def value(x: ExtendedDouble) -> ExtendedDouble:
        small = (x.exponent < -ORDINARY) & (x.fraction.high != 0)
        ordinary = chosen(small, DoubleDouble(np.copysign(2.0**-ORDINARY, x.fraction.high)), x.doubled)
        return whichever(x.exponent > ORDINARY, x, ExtendedDouble.of(double(ordinary)))

    return value
