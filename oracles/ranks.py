"""The possible ranks of elements that are known up to an error, for outputs of places and of largest elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, Real

Mask = NDArray[np.bool_]


class RankWindow(NamedTuple):
    """The least and the largest possible rank of each element. The largest element has rank 0."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def holds(self, ranks: F64) -> Mask:
        """Return where the rank of an element lies in its window."""
        return (self.first <= ranks) & (ranks <= self.last)

    def at(self, places: NDArray[np.int64], axis: int) -> RankWindow:
        """Return the windows of the elements at these places along the axis."""
        return RankWindow(at(self.first, places, axis), at(self.last, places, axis))


@dataclass(frozen=True, eq=False)
class Ranks:
    """The possible places of elements of some ranks along an axis. Arrays have all axes of a formula, and broadcast."""

    inner: RankWindow
    """The ranks that elements certainly have in some correct kernel."""
    outer: RankWindow
    """The ranks that elements may have in correct kernels, enlarged by the error of the oracle's float64."""
    rank: F64
    """The ranks whose places an output holds."""
    axis: int
    far: F64
    """The largest distance of kernels' elements from the exact elements."""
    ties: float
    """Which place is right among elements that are equal in all kernels: `EITHER`, `FIRST` or `LAST`."""
    doubt: Mask | None = None
    """Mask of the places at which float64 may order elements differently than exact values; None for nowhere."""

    def certain(self, places: F64) -> Mask:
        """Return where all correct kernels have the same place."""
        window = self.outer.at(places.astype(np.int64), self.axis)
        return np.asarray((window.first == self.rank) & (window.last == self.rank))

    def exist(self, places: F64) -> Mask:
        """Return where a place is a whole number from 0 to the last place."""
        count = self.outer.first.shape[self.axis]
        return np.asarray((places >= 0) & (places < count) & (places == np.floor(places)))

    def allowed(self, places: F64) -> tuple[Mask, Mask]:
        """Return two masks: where places are certainly right, and where they may be right."""
        known = self.exist(places)
        if not self.outer.first.shape[self.axis]:
            return known, known
        whole = np.where(known, places, 0.0).astype(np.int64)
        inner, outer = (each.at(whole, self.axis).holds(self.rank) for each in (self.inner, self.outer))
        return known & inner, known & outer

    def repeated(self, places: F64) -> Mask:
        """Return where a place occurs that already occurs at a lower rank."""
        found = np.zeros(places.shape, bool)
        for axis in (axis for axis, size in enumerate(self.rank.shape) if size > 1):
            order = np.argsort(places, axis=axis, kind="stable")
            along = np.take_along_axis(places, order, axis)
            same = np.zeros(places.shape, bool)
            before = (slice(None),) * axis
            same[(*before, slice(1, None))] = np.diff(along, axis=axis) == 0
            again = np.zeros(places.shape, bool)
            np.put_along_axis(again, order, same, axis)
            found |= again
        return found


def at(values: NDArray[Any], places: NDArray[np.int64], axis: int) -> NDArray[Any]:
    """Return the elements at places along an axis; all arrays have the same axes."""
    rest = np.broadcast_shapes(_without(values.shape, axis), _without(places.shape, axis))
    wide = np.broadcast_to(values, (*rest[:axis], values.shape[axis], *rest[axis + 1 :]))
    there = np.broadcast_to(places, (*rest[:axis], places.shape[axis], *rest[axis + 1 :]))
    found: NDArray[Any] = np.take_along_axis(wide, there, axis)
    return found


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def window_of(low: Real, high: Real, axis: int) -> RankWindow:
    """Return the ranks that elements between these ends may have, from the numbers of elements that are certainly
    larger and certainly smaller."""
    count = low.shape[axis]
    return RankWindow(_above(low, high, axis), count - 1 - _above(-high, -low, axis))


def _above(values: Real, limits: Real, axis: int) -> NDArray[np.int64]:
    """Return, for each limit, the number of values that are larger."""
    both = [np.concatenate(pair, axis) for pair in zip(_parts(limits), _parts(values), strict=True)]
    is_value = np.concatenate([np.zeros(limits.shape, np.int8), np.ones(values.shape, np.int8)], axis)
    order = np.lexsort((is_value, *(-each for each in both)), axis=axis)  # limits come before equal values
    counts = np.cumsum(np.take_along_axis(is_value, order, axis), axis, dtype=np.int64)
    found = np.empty_like(counts)
    np.put_along_axis(found, order, counts, axis)
    before = (slice(None),) * axis
    return found[(*before, slice(limits.shape[axis]))]


def _parts(values: Real) -> tuple[F64, ...]:
    """Return the parts of numbers as sort keys, of which the last counts most."""
    return (values.low, values.high) if isinstance(values, DoubleDouble) else (values,)


def exactly(order: NDArray[np.int64], axis: int) -> RankWindow:
    """Return the ranks of elements if every kernel sorts them into this order, equal elements too."""
    ranks = np.empty_like(order)
    shape = [size if at == axis else 1 for at, size in enumerate(order.shape)]
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[axis]).reshape(shape), order.shape), axis)
    return RankWindow(ranks, ranks)
