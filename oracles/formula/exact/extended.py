"""Double-double with an exponent of its own: the exact centre of what leaves the range of float64 on the way.

A number is a double-double fraction times a power of two. Fractions lie in [1/2, 1), so that no product or quotient of
them underflows, and results have the bits that double-double would have if float64 had no least and no largest number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, absolute, chosen
from oracles.elementary import doubledouble, tables
from oracles.formula.exact.arithmetic import Double, Mask, of_ieee, took
from oracles.formula.exact.centre import Inputs, Replaced, evaluate
from oracles.formula.trace import Kind, Node

I32 = NDArray[np.int32]

_ZERO = -(1 << 29)
"""The exponent of zeros: smaller than any other, so that what is added to a zero keeps its own."""
_ORDINARY = 900
"""Magnitudes between 2^-900 and 2^900 are the same in double-double, and functions of them are."""
_FARTHEST = 24
"""exp of what is larger than 2^24 is larger than any format tells, or nearer to 0."""
_WHOLE = 10
"""exp of what is smaller than 2^10 is calculated at once."""
_FADED = -600.0
"""sigmoid of what is smaller is its exponential, but for a share of e^-600."""
_PROPORTIONAL: tuple[Kind, ...] = ("tanh", "sin", "erf")
"""These are 0 at 0: what is as small as 2^-900 they multiply by their slope, but for a share of its square."""
_VANISHING: tuple[Kind, ...] = ("exp", "sigmoid", "dot", "online", "welford_squares")
"""Where these are zero, it may be something that underflowed."""


class ExtendedDouble:
    """`fraction` * 2^`exponent` of one shape; infinities and NaN lie in the high part of the fraction."""

    def __init__(self, fraction: DoubleDouble, exponent: I32) -> None:
        self.fraction, self.exponent = fraction, exponent

    @staticmethod
    def of(value: DoubleDouble, exponent: Any = 0) -> ExtendedDouble:
        """`value` * 2^`exponent`; low parts of what is infinite or NaN are left out."""
        high, moved = np.frexp(value.high)
        finite = np.isfinite(high)
        low = np.where(finite, np.ldexp(value.low, -moved), 0.0)
        own = np.where(finite, np.add(exponent, moved, dtype=np.int32), 0)
        return ExtendedDouble(DoubleDouble(high, low), np.where(high == 0, _ZERO, own).astype(np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.exponent.shape

    @property
    def doubled(self) -> DoubleDouble:
        """The number in double-double; what is beyond its range is infinite, or zero, or has lost bits."""
        return self.in_units_of(0)

    def in_units_of(self, exponent: Any) -> DoubleDouble:
        """The number over 2^`exponent`."""
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
        """Sum along `axis`, as a tree; the axis stays."""
        exponent = self.exponent.max(axis, keepdims=True, initial=_ZERO)
        values = self.in_units_of(exponent)
        total = values.sum(axis)
        kept = DoubleDouble(np.expand_dims(total.high, axis), np.expand_dims(total.low, axis))
        return ExtendedDouble.of(of_ieee(kept, values.high.sum(axis, keepdims=True)), exponent)


class Extended:
    """The arithmetic of these, see `oracles.formula.exact.arithmetic`."""

    def lift(self, values: F64) -> ExtendedDouble:
        return ExtendedDouble.of(DoubleDouble(values))

    def apply(self, kind: Kind, values: ExtendedDouble) -> ExtendedDouble:
        if kind == "absolute":
            return ExtendedDouble(absolute(values.fraction), values.exponent)
        if kind in ("sqrt", "rsqrt"):
            half = values.exponent >> 1
            found = Double().apply(kind, values.in_units_of(2 * half))
            return ExtendedDouble.of(found, half if kind == "sqrt" else -half)
        if kind == "exp":
            return self._exp(values)
        if kind == "log":
            return self._log(values)
        value = values.doubled
        near = ExtendedDouble.of(Double().apply(kind, value))
        if kind == "sigmoid":
            return self.where(value.high < _FADED, self._exp(values), near)
        if kind not in _PROPORTIONAL:
            return near
        small = values * ExtendedDouble.of(_slope_of_erf()) if kind == "erf" else values
        return self.where(values.exponent < -_ORDINARY, small, near)

    def operate(self, kind: Kind, a: ExtendedDouble, b: ExtendedDouble) -> ExtendedDouble:
        if kind == "add":
            return a + b
        if kind == "subtract":
            return a - b
        return a * b if kind == "multiply" else a / b

    def total(self, values: ExtendedDouble, axis: int) -> ExtendedDouble:
        return values.sum(axis)

    def greatest(self, values: ExtendedDouble, axis: int) -> ExtendedDouble:
        if not values.shape[axis]:
            return self.lift(np.full([1 if at == axis else size for at, size in enumerate(values.shape)], -np.inf))
        before = (slice(None),) * axis
        while (n := values.shape[axis]) > 1:
            half = (n + 1) // 2  # of three, the one in the middle is in both
            a, b = values[(*before, slice(half))], values[(*before, slice(n - half, n))]
            values = self.where(self.compare("less", a, b) | np.isnan(b.fraction.high), b, a)
        return values

    def where(self, mask: Mask, a: ExtendedDouble, b: ExtendedDouble) -> ExtendedDouble:
        return ExtendedDouble(chosen(mask, a.fraction, b.fraction), np.where(mask, a.exponent, b.exponent))

    def compare(self, kind: Kind, a: ExtendedDouble, b: ExtendedDouble) -> Mask:
        one, other = a.fraction, b.fraction
        same = (one.high == other.high) & (one.low == other.low) & (a.exponent == b.exponent)
        less = ((a - b).fraction.high < 0) & ~same
        return np.asarray(less | same if kind == "at_most" else less)

    def take(self, table: ExtendedDouble, index: ExtendedDouble, axis: int) -> ExtendedDouble:
        at, fraction = index.doubled.high, table.fraction
        high, low, exponent = (took(each, at, axis) for each in (fraction.high, fraction.low, table.exponent))
        return ExtendedDouble(DoubleDouble(high, low), exponent)

    def _exp(self, x: ExtendedDouble) -> ExtendedDouble:
        """e^x as a power of two of e^(x / 2^k): that is as far off as x is by a share of 2^-110."""
        near = (x.exponent <= _FARTHEST) & np.isfinite(x.fraction.high)
        halvings = np.where(near, np.maximum(x.exponent - _WHOLE, 0), 0)
        value = chosen(near, x.in_units_of(halvings), DoubleDouble(np.zeros(x.shape)))
        exponent, less = doubledouble.exp_parts(value)
        found = ExtendedDouble.of(less + 1.0, exponent)
        for done in range(int(halvings.max(initial=0))):
            found = self.where(halvings > done, found * found, found)
        size = x.fraction.high
        far = np.where(np.isnan(size), np.nan, np.where(size > 0, np.inf, 0.0))
        return self.where(near, found, self.lift(far))

    def _log(self, x: ExtendedDouble) -> ExtendedDouble:
        """Return log(x). Where x is not ordinary, the logarithm of the fraction is too small to cancel that of the
        power of two."""
        moved = np.where((np.abs(x.exponent) < _ORDINARY) | (x.exponent == _ZERO), 0, x.exponent)
        log = doubledouble.log(x.in_units_of(moved))
        added = tables.logarithms().log_two * moved.astype(np.float64) + log
        return ExtendedDouble.of(chosen(moved == 0, log, of_ieee(added, log.high)))


@cache
def _slope_of_erf() -> DoubleDouble:
    return tables.doubled([tables.fixed(lambda: 2 / mpmath.sqrt(mpmath.pi))])[0]


def wide_values(inputs: Inputs, replaced: Replaced) -> Mapping[Node, Any]:
    """The values of all nodes in double-double; in extended double-double where one of them leaves its range."""
    found = evaluate(inputs, Double(), replaced)
    if any(_leaves_range(node, found) for node in found):
        return evaluate(inputs, Extended(), replaced)
    return found


def _leaves_range(node: Node, values: Mapping[Node, Any]) -> bool:
    """Whether a value is beyond what double-double holds to its last bit. Some are said to be that are not: what is
    infinite anyway, and zeros."""
    value = values[node]
    if not isinstance(value, DoubleDouble):
        return False
    size = np.abs(value.high)
    zero = size == 0
    if (~(zero | (size >= 2.0**-_ORDINARY) & (size <= 2.0**_ORDINARY))).any():
        return True
    if node.kind in ("multiply", "divide"):  # a zero of numbers that are none
        zero = zero & (values[node.args[0]].high != 0)
        zero = zero & (values[node.args[1]].high != 0) if node.kind == "multiply" else zero
        return bool(zero.any())
    return node.kind in _VANISHING and bool(zero.any())
