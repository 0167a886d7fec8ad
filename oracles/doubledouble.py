"""Arrays of double-double numbers: unevaluated sums of two float64, about 106 bits, for judging float64 kernels.

Algorithms and bounds: Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks of
double-word arithmetic", ACM TOMS 44 (2017). Addition is their AccurateDWPlusDW (3u^2), multiplication DWTimesDW1
(5u^2), with a float64 number DWPlusFP (2u^2) and DWTimesFP2 (3u^2), division DWDivDW1 (10u^2), square root one Newton
step from the float64 root. All are within `ULP`, as long as no product of two low parts underflows and no product with
`SPLITTER` overflows. Callers keep magnitudes in that range, or add the error by underflow: `LOST` for a product.

With an additional exponent they are numbers of any magnitude: a double-double fraction times a power of two. Fractions
lie in [1/2, 1), so that no product or quotient of fractions underflows. Results have the bits that double-double would
have if the range of float64 were unlimited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

ULP = 2.0**-101
"""The relative error bound of every operation."""

LOST = 2.0**-1070
"""The bound of the absolute error that underflow adds to a product: five partial products, each off by at most half of
2^-1074. Underflow adds no error to sums, since additions of subnormal numbers are exact."""

SPLITTER = 2.0**27 + 1


class DoubleDouble:
    """Arrays `high + low` of one shape, with high = fl(high + low); `low` is zero by default. Python's operators apply,
    with float64 arrays on either side."""

    def __init__(self, high: Any, low: Any = None) -> None:
        self.high: F64 = np.asarray(high, dtype=np.float64)
        self.low: F64 = np.zeros(self.high.shape) if low is None else np.asarray(low, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.high.shape

    def __getitem__(self, key: Any) -> DoubleDouble:
        return DoubleDouble(self.high[key], self.low[key])

    # NumPy arrays leave mixed operations to the operators below.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> DoubleDouble:
        return _add(self, other) if isinstance(other, DoubleDouble) else _add_float(self, other)

    def __sub__(self, other: Any) -> DoubleDouble:
        return _add(self, -other) if isinstance(other, DoubleDouble) else _add_float(self, -np.asarray(other))

    def __mul__(self, other: Any) -> DoubleDouble:
        return _multiply(self, other) if isinstance(other, DoubleDouble) else _multiply_float(self, other)

    def __truediv__(self, other: Any) -> DoubleDouble:
        return _divide(self, _lifted(other))

    def __radd__(self, other: Any) -> DoubleDouble:
        return _add_float(self, other)

    def __rsub__(self, other: Any) -> DoubleDouble:
        return _add_float(-self, other)

    def __rmul__(self, other: Any) -> DoubleDouble:
        return _multiply_float(self, other)

    def __rtruediv__(self, other: Any) -> DoubleDouble:
        return _divide(_lifted(other), self)

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.high, -self.low)

    def sum(self, axis: int) -> DoubleDouble:
        """Return the sum along `axis`, which is removed; terms are added as a tree."""
        high, low = np.moveaxis(self.high, axis, -1), np.moveaxis(self.low, axis, -1)
        total = DoubleDouble(high, low)
        while (n := total.shape[-1]) > 1:
            half = n // 2
            paired = total[..., :half] + total[..., half : 2 * half]
            if n % 2:
                paired = DoubleDouble(
                    np.concatenate([paired.high, total.high[..., -1:]], -1),
                    np.concatenate([paired.low, total.low[..., -1:]], -1),
                )
            total = paired
        return total[..., 0] if total.shape[-1] else DoubleDouble(np.zeros(total.shape[:-1]))


Real = F64 | DoubleDouble


def head(value: Real) -> F64:
    """Return the value as float64, rounded to nearest."""
    return value.high if isinstance(value, DoubleDouble) else value


def root(value: DoubleDouble) -> DoubleDouble:
    """Return the square root."""
    first = np.sqrt(value.high)
    rest = value - two_product(first, first)
    correction = np.divide(rest.high, 2 * first, out=np.zeros_like(first), where=first > 0)
    return _quick_sum(first, correction)


def absolute(value: DoubleDouble) -> DoubleDouble:
    """Return the magnitude."""
    sign = np.where(value.high < 0, -1.0, 1.0)
    return DoubleDouble(sign * value.high, sign * value.low)


def chosen(mask: NDArray[np.bool_], value: DoubleDouble, other: DoubleDouble) -> DoubleDouble:
    """Return `value` where `mask` is set, else `other`; all of one shape."""
    return DoubleDouble(np.where(mask, value.high, other.high), np.where(mask, value.low, other.low))


def of_ieee(value: DoubleDouble, high: F64) -> DoubleDouble:
    """Return the value, with the result `high` of float64 in its place where that is infinite or NaN: the algorithms
    here would turn infinities into NaN."""
    finite = np.isfinite(high)
    if finite.all():
        return value
    return DoubleDouble(np.where(finite, value.high, high), np.where(finite, value.low, 0.0))


def end_to_end(values: Sequence[Real]) -> Real:
    """Return the values joined along their first axis; all are float64 or all double-double."""
    if isinstance(values[0], DoubleDouble):
        doubled = [value for value in values if isinstance(value, DoubleDouble)]
        return DoubleDouble(np.concatenate([v.high for v in doubled]), np.concatenate([v.low for v in doubled]))
    return np.concatenate([head(value) for value in values])


def either(mask: NDArray[np.bool_], a: Real, b: Real) -> Real:
    """Return `a` where the mask is set, else `b`; both are float64 or both double-double."""
    if isinstance(a, DoubleDouble) and isinstance(b, DoubleDouble):
        return chosen(mask, a, b)
    return np.where(mask, head(a), head(b))


def sticky(value: DoubleDouble) -> F64:
    """Return the value rounded to odd in float64: rounding that result to 51 bits or fewer gives the same as rounding
    the value itself."""
    inexact = (value.low != 0) & (value.high.view(np.int64) & 1 == 0)
    return np.where(inexact, np.nextafter(value.high, np.copysign(np.inf, value.low)), value.high)


def two_sum(a: F64, b: F64) -> DoubleDouble:
    """Return a + b without error (Knuth)."""
    total = a + b
    part = total - a
    return DoubleDouble(total, (a - (total - part)) + (b - part))


def two_product(a: F64, b: F64) -> DoubleDouble:
    """Return a * b without error (Dekker; NumPy has no fused multiply-add)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return DoubleDouble(product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def plus(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Return a + b if |a| >= |b| or a is zero, in 8 operations instead of 20, with an error of at most 2^-106 (2 |a| +
    2 |b| + |a + b|). The sum of the high parts is exact (Dekker); the two sums that follow round, with a relative error
    of 2^-53."""
    total = _quick_sum(a.high, b.high)
    return _quick_sum(total.high, total.low + (a.low + b.low))


def _split(a: F64) -> tuple[F64, F64]:
    scaled = SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _quick_sum(a: F64, b: F64) -> DoubleDouble:
    total = a + b
    return DoubleDouble(total, b - (total - a))


def _finished(first: F64, second: F64) -> DoubleDouble:
    """Return the sum as `_quick_sum` does, but an infinite or NaN `first` is kept."""
    total = first + second
    finite = np.isfinite(total)
    if finite.all():
        return DoubleDouble(total, second - (total - first))
    return DoubleDouble(np.where(finite, total, first), np.where(finite, second - (total - first), 0.0))


def _lifted(value: Any) -> DoubleDouble:
    return value if isinstance(value, DoubleDouble) else DoubleDouble(value)


def _add(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    high, low = two_sum(a.high, b.high), two_sum(a.low, b.low)
    first = _quick_sum(high.high, high.low + low.high)
    return _quick_sum(first.high, low.low + first.low)


def _add_float(a: DoubleDouble, b: Any) -> DoubleDouble:
    high = two_sum(a.high, np.asarray(b, dtype=np.float64))
    return _quick_sum(high.high, a.low + high.low)


def _multiply_float(a: DoubleDouble, b: Any) -> DoubleDouble:
    factor = np.asarray(b, dtype=np.float64)
    product = two_product(a.high, factor)
    return _finished(product.high, product.low + a.low * factor)


def _multiply(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    product = two_product(a.high, b.high)
    return _finished(product.high, product.low + (a.high * b.low + a.low * b.high))


def _divide(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    first = a.high / b.high
    rest = a - b * first
    second = rest.high / b.high
    return _finished(first, second)


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
