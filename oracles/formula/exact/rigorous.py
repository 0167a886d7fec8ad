"""The arithmetic of float64 with a bound of the error of each value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.doubledouble import F64
from oracles.elementary.function import Elementary
from oracles.formula.exact.arithmetic import Float64, Mask, summed_products
from oracles.formula.exact.contraction import LARGE, SMALL, Axes, contracted, extremes, is_contraction
from oracles.formula.trace import Kind

_U = 2.0**-53 * (1 + 2.0**-20)
"""The bound of an operation's relative error, slightly enlarged for the rounding of the bounds themselves."""
_MANTISSA = (1 << 52) - 1
"""The mantissa bits, which are zero in a power of two."""
_SMALL = 2.0**-960
"""The magnitude below which a number's rounding error may be subnormal, so that the error itself is not exact."""
_LOST = 2.0**-1072
"""The bound of the error of a product or quotient that underflows, including the rounding of this bound."""


class UncertainError(Exception):
    """The bounds of float64 leave open which branch or place a formula chooses."""


@dataclass(frozen=True, eq=False)
class Near:
    """Values in float64, with bounds of their distance from the exact values."""

    value: F64
    error: F64 | float = 0.0
    largest: float | None = None
    """The largest magnitude of the values, which is finite; None if it is not known yet."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.value.shape

    def __getitem__(self, key: Any) -> Near:
        error = self.error if isinstance(self.error, float) else np.broadcast_to(self.error, self.shape)[key]
        return Near(self.value[key], error)

    def __neg__(self) -> Near:
        return Near(-self.value, self.error)

    def __add__(self, other: Near) -> Near:
        return Rigorous().operate("add", self, other)


class Rigorous:
    """The arithmetic of float64 with error bounds, an `oracles.formula.exact.arithmetic.Arithmetic`."""

    def __init__(self) -> None:
        self._plain = Float64()

    def lift(self, values: F64) -> Near:
        return Near(values)

    def apply(self, function: Elementary, values: Near) -> Near:
        found = self._plain.apply(function, values.value)
        bound, size = function.float64.bound, np.abs(found)
        if function.is_exact:
            return _special(found, size, self._moved(function, values, found, size), values)
        error = size * (bound.relative + _U * 2.0**-10) + bound.absolute
        if not isinstance(values.error, float):
            slope, remainder = function.bend(values.value, found, values.error)
            if function.elasticity is not None:  # slopes of roots leave float64 long before values do
                moved = np.abs(function.elasticity(found)) * (values.error / np.abs(values.value))
                moved = np.where(np.equal(values.error, 0), 0.0, moved)
            else:
                moved = np.abs(slope) * values.error
            error = error + moved * (1 + 2.0**-20) + remainder
        if not size.all():  # e^-inf is nothing else
            error = np.where(np.isinf(values.value) & (size == 0), 0.0, error)
        return _special(found, size, error, values)

    def _moved(self, function: Elementary, values: Near, found: F64, size: F64) -> F64 | float:
        """Return the bound of the change of an exact function's value if its argument moves by the argument's error."""
        if isinstance(values.error, float):
            return values.error
        away = values.error * (1 + 2.0**-20)
        far = function.hull(values.value - away, values.value + away, found)
        return np.where(far == 0, 0.0, far + size * _U)

    def operate(self, kind: Kind, a: Near, b: Near) -> Near:
        found = self._plain.operate(kind, a.value, b.value)
        size = np.abs(found)
        error: F64 = size * _U
        if kind in ("add", "subtract"):
            moved = _is_rounded(kind, a.value, b.value, found)
            if isinstance(a.error, float) and isinstance(b.error, float) and not moved.any():
                return Near(found)  # such as sums of extents, with which places are compared
            error = np.where(moved, error, 0.0)  # an exact element has no error, whatever the others have
            return _special(found, size, error + a.error + b.error, a, b)
        if kind == "divide" and isinstance(a.error, float) and isinstance(b.error, float):
            # Dividing by a power of two rounds nothing, such as in the mean of one element.
            error = np.where(np.ascontiguousarray(b.value).view(np.int64) & _MANTISSA, error, 0.0)
        if kind == "multiply":
            if not isinstance(a.error, float):
                error += a.error * (np.abs(b.value) + b.error)
            if not isinstance(b.error, float):
                error += np.abs(a.value) * b.error
        elif not (isinstance(a.error, float) and isinstance(b.error, float)):
            least = np.maximum(np.abs(b.value) - b.error, 0.0)
            error += (a.error + size * b.error) / least * (1 + 2.0**-20)
        if not size.min(initial=1.0) >= _SMALL:  # zeros with a factor of zero are exact
            inexact = (size < _SMALL) & (a.value != 0) & ((b.value != 0) | (kind == "divide"))
            error = np.where(inexact, error + _LOST, error)
        return _special(found, size, error, a, b)

    def total(self, values: Near, axis: int) -> Near:
        found = self._plain.total(values.value, axis)
        count = values.value.shape[axis]
        error = self._plain.total(np.abs(values.value), axis) * (count * _U)
        if count == 1 and isinstance(values.error, float):  # nothing is rounded
            error = np.zeros_like(found)
        if not isinstance(values.error, float):
            error = error + self._plain.total(np.broadcast_to(values.error, values.value.shape), axis)
        if np.isfinite(found).all():
            return Near(found, error)
        return Near(
            found, np.where(np.isfinite(found), error, np.where(np.isnan(error) & ~np.isnan(found), np.nan, 0.0))
        )

    def dot(self, a: Near, b: Near, axes: Axes) -> Near:
        if not is_contraction(a.shape, b.shape, axes) or not _are_ordinary(a.value, b.value):
            products: Near = summed_products(self, a, b, axes)
            return products
        found, sizes = contracted(a.value, b.value, axes), (np.abs(a.value), np.abs(b.value))
        n = math.prod(max(a.shape[axis], b.shape[axis]) for axis in axes)
        error = contracted(sizes[0], sizes[1], axes) * ((n + 1) * _U)
        if not isinstance(a.error, float):
            error += contracted(np.broadcast_to(a.error, a.shape), sizes[1] + b.error, axes)
        if not isinstance(b.error, float):
            error += contracted(sizes[0], np.broadcast_to(b.error, b.shape), axes)
        return _special(found, np.abs(found), error)

    def greatest(self, values: Near, axis: int) -> Near:
        error = values.error
        if not isinstance(error, float):
            error = self._plain.greatest(np.broadcast_to(error, values.value.shape), axis)
        return Near(self._plain.greatest(values.value, axis), error)

    def where(self, mask: Mask, a: Near, b: Near) -> Near:
        exact = isinstance(a.error, float) and isinstance(b.error, float)
        return Near(np.where(mask, a.value, b.value), 0.0 if exact else np.where(mask, a.error, b.error))

    def compare(self, kind: Kind, a: Near, b: Near) -> Mask:
        error = a.error + b.error
        if not isinstance(error, float) and not ((error == 0) | (np.abs(a.value - b.value) > error)).all():
            raise UncertainError
        return self._plain.compare(kind, a.value, b.value)

    def take(self, table: Near, index: Near, axis: int, outside: Near | None = None) -> Near:
        value = self._plain.take(table.value, index.value, axis, None if outside is None else outside.value)
        if isinstance(table.error, float):
            return Near(value)
        error, none = np.broadcast_to(table.error, table.value.shape), np.zeros((1,) * table.value.ndim)
        return Near(value, self._plain.take(np.ascontiguousarray(error), index.value, axis, none))

    def joined(self, parts: Sequence[Near], axis: int) -> Near:
        errors = [np.broadcast_to(each.error, each.shape) for each in parts]
        return Near(np.concatenate([each.value for each in parts], axis), np.concatenate(errors, axis))


def recurred(a: Near, b: Near, start: Near, axis: int, count: int) -> Near:
    """Return h(t) = a(t) h(t - 1) + b(t) along an axis, as `Rigorous.operate` gives it place by place, in as few calls
    of NumPy as there can be."""
    factor, term, own = (places_of(each.value, axis, count) for each in (a, b, start))
    off, more = (places_of(np.broadcast_to(each.error, each.shape), axis, count) for each in (a, b))
    shape = np.broadcast_shapes(factor.shape, term.shape, own.shape)[1:]
    value, product = np.empty((count + 1, *shape)), np.empty((count, *shape))
    value[0], before, after = own[0], value[:-1], value[1:]
    for each, added, last, multiplied, now in zip(factor, term, before, product, after, strict=True):
        np.add(np.multiply(each, last, multiplied), added, now)
    size = np.abs(product)
    error = size * _U + off * np.abs(before)
    if not size.min(initial=1.0) >= _SMALL:
        error = np.where((size < _SMALL) & (factor != 0) & (before != 0), error + _LOST, error)
    error += np.where(_is_rounded("add", product, term, after), np.abs(after) * _U, 0.0) + more
    last, grown = np.broadcast_to(start.error, shape), np.abs(factor) + off
    for each, now in zip(grown, error, strict=True):
        now += each * last
        last = now
    if not (finite := np.isfinite(after)).all():  # it is no number from some place on
        product_is = np.isfinite(product)
        became = np.isfinite(factor) & np.isfinite(before) & ~product_is | product_is & np.isfinite(term) & ~finite
        unknown = np.logical_or.accumulate(became | np.isnan(off) | np.isnan(more) | finite & np.isnan(error))
        error = np.where(finite, error, np.where(unknown | np.isnan(start.error), np.nan, 0.0))
    return Near(along_axis(after, axis), along_axis(error, axis))


def places_of(values: F64, axis: int, count: int) -> F64:
    """Return the values at each place along an axis. The places are the first axis of the result, in which the old axis
    has one element. An axis of one element is broadcast."""
    found = np.expand_dims(np.moveaxis(values, axis, 0), axis + 1)
    return np.broadcast_to(found, (count, *found.shape[1:]))


def along_axis(places: F64, axis: int) -> F64:
    """Return values with the places moved from the first axis to `axis`, which undoes `places_of`."""
    return np.ascontiguousarray(np.moveaxis(places.squeeze(axis + 1), 0, axis))


def _are_ordinary(a: F64, b: F64) -> bool:
    """Whether no product of an element of a and one of b underflows, and no sum of such products overflows."""
    (least, largest), (other_least, other_largest) = extremes(a), extremes(b)
    return least * other_least >= SMALL and largest * other_largest < LARGE


def _is_rounded(kind: Kind, a: F64, b: F64, found: F64) -> Mask:
    """Return where a sum or difference was rounded (the remainder of Knuth's TwoSum is not zero), or is not finite."""
    b = -b if kind == "subtract" else b
    with np.errstate(invalid="ignore"):
        taken = found - a
        return np.asarray(((a - (found - taken)) + (b - taken)) != 0)


def _special(found: F64, size: F64, error: F64 | float, *args: Near) -> Near:
    """Return a result with error 0 where an argument is infinite or NaN, and with an unknown error where the result
    became infinite or NaN although no argument is."""
    largest = float(np.maximum.reduce(size, axis=None, initial=0.0))
    if largest < np.inf:
        return Near(found, error, largest)
    finite = np.isfinite(found)
    became = np.isfinite(args[0].value) & np.isfinite(args[-1].value)
    for each in args:
        became = became | np.isnan(each.error)
    return Near(found, np.where(finite, error, np.where(became, np.nan, 0.0)))
