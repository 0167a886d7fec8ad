"""Elements along an axis by rank, in any arithmetic: rank 0 is the largest element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble
from oracles.extendeddouble import ExtendedDouble
from oracles.formula.exact.arithmetic import Arithmetic, Values
from oracles.formula.exact.rigorous import Near, UncertainError

Order = NDArray[np.int64]


def order_of(values: Values, axis: int, *, last: bool = False) -> Order:
    """Return the places of elements along an axis, in the order from the largest element to the smallest. Of equal
    elements the first comes first, or the `last`."""
    keys = _keys(values)
    if last:  # in ascending order, seen from the other end
        return np.flip(_ascending(keys, axis), axis)
    return _ascending([-key for key in keys], axis)


def _keys(values: Values) -> list[NDArray[Any]]:
    """Return sort keys for `np.lexsort`, of which the last key counts most."""
    if isinstance(values, ExtendedDouble):
        high = values.fraction.high
        size = np.sign(high) * np.where(np.isinf(high), 2.0**60, values.exponent + 2.0**30)
        return [values.fraction.low, high, np.where(high == 0, 0.0, size)]
    if isinstance(values, DoubleDouble):
        return [values.low, values.high]
    if isinstance(values, Near):
        return [values.value]
    return [dense(values.reshape(-1).tolist()).reshape(values.shape) if values.dtype == object else values]


def dense(values: Sequence[mpmath.mpf]) -> F64:
    """Return whole numbers that have the same order as the values, and are equal where the values are. Comparing
    numbers of mpmath takes long, so that only values with the same float64 are compared."""
    rounded = np.array([float(each) for each in values])
    order = np.argsort(rounded, kind="stable")
    found, before, key = np.empty(len(values)), None, -1.0
    ends = np.flatnonzero(np.diff(rounded[order]) != 0) + 1
    for run in np.split(order, ends) if len(values) else ():
        for at in sorted(run.tolist(), key=values.__getitem__) if len(run) > 1 else run.tolist():
            key += before is None or values[at] != before
            found[at], before = key, values[at]
    return found


def _ascending(keys: list[NDArray[Any]], axis: int) -> Order:
    if len(keys) == 1:
        return np.argsort(keys[0], axis=axis, kind="stable")
    return np.lexsort(keys, axis=axis)


def ranked(arithmetic: Arithmetic, table: Values, rank: Values, axis: int) -> Values:
    """Return the elements of these ranks along an axis; without elements -inf, the maximum of nothing."""
    if not table.shape[axis]:
        return arithmetic.lift(_of_nothing(table.shape, rank.shape, axis, -np.inf))
    if isinstance(table, Near) and not isinstance(table.error, float):
        return _between(arithmetic, table, rank, axis)
    return arithmetic.take(_sorted(arithmetic, table, axis), rank, axis)


def _sorted(arithmetic: Arithmetic, table: Values, axis: int) -> Values:
    return arithmetic.take(table, arithmetic.lift(order_of(table, axis).astype(np.float64)), axis)


def _between(arithmetic: Arithmetic, table: Near, rank: Values, axis: int) -> Near:
    """Return the elements of these ranks if the table's values are known up to an error. The element of a rank lies
    between those of the same rank among all lower ends and among all upper ends."""
    ends = [Near(table.value + side * table.error * (1 + 2.0**-20)) for side in (-1.0, 0.0, 1.0)]
    low, middle, high = (arithmetic.take(_sorted(arithmetic, each, axis), rank, axis).value for each in ends)
    error = np.maximum(high - middle, middle - low) + np.abs(middle) * 2.0**-52
    return Near(middle, np.where(np.isfinite(middle) & ~np.isnan(error), error, np.nan))


def placed(arithmetic: Arithmetic, table: Values, rank: Values, axis: int, *, last: bool) -> Values:
    """Return the places of these ranks along an axis; without elements 0. Raises UncertainError if values err."""
    if not table.shape[axis]:
        return arithmetic.lift(_of_nothing(table.shape, rank.shape, axis, 0.0))
    if isinstance(table, Near) and not isinstance(table.error, float) and np.any(table.error != 0):
        raise UncertainError
    order = order_of(table, axis, last=last).astype(np.float64)
    return arithmetic.take(arithmetic.lift(order), rank, axis)


def _of_nothing(table: tuple[int, ...], rank: tuple[int, ...], axis: int, value: float) -> F64:
    shape = np.broadcast_shapes((*table[:axis], 1, *table[axis + 1 :]), rank)
    return np.full(shape, value)
