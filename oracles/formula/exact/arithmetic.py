"""Three arithmetics in which a formula is evaluated: float64, double-double and mpmath."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, of_ieee
from oracles.elementary.function import Elementary
from oracles.formula.exact.contraction import Axes, contracted, is_contraction, part, spans
from oracles.formula.exact.deadline import look_at_the_clock
from oracles.formula.trace import FormulaError, Kind

Values = Any
"""An array of an arithmetic: F64, DoubleDouble, or an object array of mpmath numbers."""
Mask = NDArray[np.bool_]


class Arithmetic(Protocol):
    """The operations of an arithmetic that evaluate a formula. Reductions keep their axis, with one element."""

    def lift(self, values: F64) -> Values:
        """Return float64 values, which are exact, as an array of this arithmetic."""
        ...

    def apply(self, function: Elementary, values: Values) -> Values:
        """Return an elementary function of values; outside its domain the result is that of IEEE 754."""
        ...

    def operate(self, kind: Kind, a: Values, b: Values) -> Values:
        """Return a + b, a - b, a * b or a / b; for infinities and zeros the result of IEEE 754."""
        ...

    def total(self, values: Values, axis: int) -> Values:
        """Return the sum along an axis."""
        ...

    def dot(self, a: Values, b: Values, axes: Axes) -> Values:
        """Return the sum of a * b along axes."""
        ...

    def greatest(self, values: Values, axis: int) -> Values:
        """Return the maximum along an axis; NaN if an element is NaN, -inf if there are no elements."""
        ...

    def where(self, mask: Mask, a: Values, b: Values) -> Values:
        """Return a where the mask is set, else b."""
        ...

    def compare(self, kind: Kind, a: Values, b: Values) -> Mask:
        """Return the mask of a <= b for the kind "at_most", of a < b for "less"."""
        ...

    def take(self, table: Values, index: Values, axis: int, outside: Values | None = None) -> Values:
        """Return the elements of the table at the places along an axis that the index holds. The index has one element
        along that axis. Where its value is no place of the table, the result is `outside`."""
        ...

    def joined(self, parts: Sequence[Values], axis: int) -> Values:
        """Return the parts joined along an axis."""
        ...


def along(operation: Callable[[Values, int], Values], values: Values, axes: Axes) -> Values:
    """Return a total or a maximum over several axes: the operation is applied along one axis after the other."""
    for axis in axes:
        values = operation(values, axis)
    return values


def summed_products(self: Arithmetic, a: Values, b: Values, axes: Axes) -> Values:
    """Return the sum of a * b along axes, without forming all products at once."""
    if not is_contraction(a.shape, b.shape, axes):
        return along(self.total, self.operate("multiply", a, b), axes)
    found = None
    for places in spans(np.broadcast_shapes(a.shape, b.shape), axes):
        each = self.operate("multiply", part(a, axes, places), part(b, axes, places))
        each = along(self.total, each, axes)
        found = each if found is None else self.operate("add", found, each)
    return found


class Float64:
    """The arithmetic of float64, for fast centres. Apart from orders of sums, bits are the same on every processor."""

    def lift(self, values: F64) -> F64:
        return values

    def apply(self, function: Elementary, values: F64) -> F64:
        return function.float64.value(values)

    def operate(self, kind: Kind, a: F64, b: F64) -> F64:
        found: F64 = _OPERATORS[kind](a, b)
        return found

    def total(self, values: F64, axis: int) -> F64:
        found: F64 = values.sum(axis=axis, keepdims=True)
        return found

    def dot(self, a: F64, b: F64, axes: Axes) -> F64:
        if is_contraction(a.shape, b.shape, axes) and np.isfinite(found := contracted(a, b, axes)).all():
            return found
        products: F64 = summed_products(self, a, b, axes)
        return products

    def greatest(self, values: F64, axis: int) -> F64:
        found: F64 = np.maximum.reduce(values, axis=axis, keepdims=True, initial=-np.inf)
        return found

    def where(self, mask: Mask, a: F64, b: F64) -> F64:
        return np.where(mask, a, b)

    def compare(self, kind: Kind, a: F64, b: F64) -> Mask:
        found: Mask = a <= b if kind == "at_most" else a < b
        return found

    def take(self, table: F64, index: F64, axis: int, outside: F64 | None = None) -> F64:
        return took(table, index, axis, outside)

    def joined(self, parts: Sequence[F64], axis: int) -> F64:
        return np.concatenate(parts, axis)


class Precise:
    """The arithmetic of mpmath at its current working precision, which decides about single elements."""

    def __init__(self) -> None:
        self.vanished = False
        """Whether a sum, a difference or a function of nonzero arguments became zero, which more bits may change."""

    def lift(self, values: F64) -> NDArray[Any]:
        return _each(mpmath.mpf)(values)

    def apply(self, function: Elementary, values: NDArray[Any]) -> NDArray[Any]:
        def exactly(value: Any) -> Any:
            look_at_the_clock()
            return function.exactly(value)

        found = _each(exactly)(values)
        self._note(found, values)
        return found

    def operate(self, kind: Kind, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        look_at_the_clock()
        found = np.frompyfunc(_quotient, 2, 1)(a, b) if kind == "divide" else _OPERATORS[kind](a, b)
        found = np.asarray(found, dtype=object)
        if kind in ("add", "subtract"):
            self._note(found, a)
        return found

    def _note(self, found: NDArray[Any], of: NDArray[Any]) -> None:
        if not self.vanished and np.count_nonzero(found) < found.size:
            self.vanished = bool(np.frompyfunc(_is_lost, 2, 1)(found, of).any())

    def total(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        if not values.shape[axis]:
            return np.full([1 if at == axis else size for at, size in enumerate(values.shape)], mpmath.mpf(0))
        look_at_the_clock()
        found = np.asarray(values.sum(axis=axis, keepdims=True), dtype=object)
        self._note(found, values)
        return found

    dot = summed_products

    def greatest(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        start = np.full([1 if at == axis else size for at, size in enumerate(values.shape)], -mpmath.inf)
        for place in range(values.shape[axis]):
            look_at_the_clock()
            start = np.frompyfunc(_larger, 2, 1)(start, np.take(values, [place], axis))
        return np.asarray(start, dtype=object)

    def where(self, mask: Mask, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.where(mask, a, b)

    def compare(self, kind: Kind, a: NDArray[Any], b: NDArray[Any]) -> Mask:
        return np.asarray(a <= b if kind == "at_most" else a < b, dtype=bool)

    def take(
        self, table: NDArray[Any], index: NDArray[Any], axis: int, outside: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        return took(table, index, axis, outside)

    def joined(self, parts: Sequence[NDArray[Any]], axis: int) -> NDArray[Any]:
        return np.concatenate(parts, axis)


class Double:
    """The arithmetic of double-double, for kernels in float64. Infinities and NaN come out as in float64."""

    def lift(self, values: F64) -> DoubleDouble:
        return DoubleDouble(values)

    def apply(self, function: Elementary, values: DoubleDouble) -> DoubleDouble:
        return function.double.value(values)

    def operate(self, kind: Kind, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        found: DoubleDouble = _OPERATORS[kind](a, b)
        return of_ieee(found, _OPERATORS[kind](a.high, b.high))

    def total(self, values: DoubleDouble, axis: int) -> DoubleDouble:
        summed = values.sum(axis)
        found = DoubleDouble(np.expand_dims(summed.high, axis), np.expand_dims(summed.low, axis))
        return of_ieee(found, values.high.sum(axis, keepdims=True))

    dot = summed_products

    def greatest(self, values: DoubleDouble, axis: int) -> DoubleDouble:
        if not values.shape[axis]:
            high = Float64().greatest(values.high, axis)
            return DoubleDouble(high, np.zeros_like(high))
        places = np.expand_dims(np.lexsort((values.low, values.high), axis=axis).take(-1, axis), axis)
        return DoubleDouble(np.take_along_axis(values.high, places, axis), np.take_along_axis(values.low, places, axis))

    def where(self, mask: Mask, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        return DoubleDouble(np.where(mask, a.high, b.high), np.where(mask, a.low, b.low))

    def compare(self, kind: Kind, a: DoubleDouble, b: DoubleDouble) -> Mask:
        same = a.high == b.high
        found: Mask = (a.high < b.high) | same & (a.low <= b.low if kind == "at_most" else a.low < b.low)
        return found

    def take(
        self, table: DoubleDouble, index: DoubleDouble, axis: int, outside: DoubleDouble | None = None
    ) -> DoubleDouble:
        high, low = (None, None) if outside is None else (outside.high, outside.low)
        return DoubleDouble(took(table.high, index.high, axis, high), took(table.low, index.high, axis, low))

    def joined(self, parts: Sequence[DoubleDouble], axis: int) -> DoubleDouble:
        high, low = (np.concatenate([getattr(each, name) for each in parts], axis) for name in ("high", "low"))
        return DoubleDouble(high, low)


_OPERATORS: Mapping[Kind, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
}  # fmt: skip


def within(index: NDArray[Any], count: int) -> Mask:
    """Return where an index is a whole number from 0 to `count` - 1."""
    places = index.astype(np.float64)
    found: Mask = (places >= 0) & (places < count) & (places == np.floor(places))
    return found


def took(table: NDArray[Any], index: NDArray[Any], axis: int, outside: NDArray[Any] | None = None) -> NDArray[Any]:
    count, known = table.shape[axis], within(index, table.shape[axis])
    if not known.all():
        if outside is None:
            raise FormulaError(f"an index lies outside of 0 to {count - 1}")
        if not known.any():
            shape = np.broadcast_shapes((*table.shape[:axis], 1, *table.shape[axis + 1 :]), index.shape)
            return np.broadcast_to(outside.astype(table.dtype), shape)
        return np.where(known, took(table, np.where(known, index, 0), axis), outside)
    places = index.astype(np.int64)
    own = [at for at, size in enumerate(places.shape) if size != 1]
    if all(at == axis or table.shape[at] == 1 for at in own):
        return _took_apart(table, places, axis, own)
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    shape = np.broadcast_shapes((*before, 1, *after), places.shape)
    wide = np.broadcast_to(table, (*shape[:axis], count, *shape[axis + 1 :]))
    found: NDArray[Any] = np.take_along_axis(wide, np.broadcast_to(places, shape), axis)
    return found


def _took_apart(table: NDArray[Any], places: NDArray[Any], axis: int, own: Sequence[int]) -> NDArray[Any]:
    """Return the elements of the table at these places, for an index that shares no dimension with the table except the
    one taken from: one `take` of NumPy serves all of them."""
    kept = [at for at in range(table.ndim) if at != axis and at not in own]
    flat = table.transpose(*kept, axis, *(at for at in own if at != axis))
    flat = flat.reshape([*(table.shape[at] for at in kept), table.shape[axis]])
    found = flat.take(places.reshape(-1), axis=-1).reshape([*flat.shape[:-1], *(places.shape[at] for at in own)])
    order = [*kept, *own]
    shape = [(places if at in own else table).shape[at] if at in order else 1 for at in range(table.ndim)]
    return np.ascontiguousarray(found.transpose(np.argsort(order)).reshape(shape))


def _each(function: Callable[[Any], Any]) -> Callable[[Any], NDArray[Any]]:
    def of(values: Any) -> NDArray[Any]:
        return np.asarray(np.frompyfunc(function, 1, 1)(values), dtype=object)

    return of


def _is_lost(found: Any, of: Any) -> bool:
    return not found and bool(of) and bool(mpmath.isfinite(of))


def _quotient(a: Any, b: Any) -> Any:
    if b:
        return a / b
    return mpmath.nan if not a or mpmath.isnan(a) or mpmath.isnan(b) else mpmath.sign(a) * mpmath.inf


def _larger(a: Any, b: Any) -> Any:
    return mpmath.nan if mpmath.isnan(a) or mpmath.isnan(b) else max(a, b)
