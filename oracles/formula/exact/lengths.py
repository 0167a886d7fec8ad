"""Lengths of rows, or extents of whole problems, that are joined in one array, so that one pass encloses all of them.

Each row is filled up with its own last element, which changes neither its maximum and minimum nor whether all its
elements have a property. Sums and counts use only the elements that the row had before, in the order in which an array
of rows of that length is summed: so each row has the same result as by itself. Problems whose rows depend on each other
are stacked along an additional dimension, and filled up along all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.enclosure import Mask
from oracles.lazy import lazy
from oracles.rounding import round_to

BESIDE = "#"
"""The name of the first dimension of stacked problems. No op has a dimension of this name."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Rows of different lengths, one after the other."""

    runs: Sequence[tuple[int, int]]
    """Pairs: a number of neighbouring rows, and their length before they were filled up."""
    longest: int
    """The length of all rows when they are filled up."""

    def count(self, dim: str) -> F64:
        """Return the length of each row, shape (rows, 1)."""
        return self._column

    def is_filled(self, dim: str) -> bool:
        """Whether some row was filled up."""
        return any(length != self.longest for _, length in self.runs)

    @lazy
    def _column(self) -> F64:
        counts, lengths = np.array(self.runs, dtype=np.int64).T
        return np.repeat(lengths.astype(np.float64), counts)[:, None]

    @lazy
    def _spans(self) -> Sequence[tuple[slice, int]]:
        """Return pairs: a slice of neighbouring rows that have one length, and that length."""
        found, start = list[tuple[slice, int]](), 0
        for length, runs in groupby(self.runs, key=lambda run: run[1]):
            end = start + sum(count for count, _ in runs)
            found.append((slice(start, end), length))
            start = end
        return found

    def total(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """Return the sum of each row along the second axis, shape (rows, 1)."""
        parts = [values[span, :length].sum(axis=1, keepdims=True) for span, length in self._spans]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def filled(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the rows of these arrays as one array, shape (rows, longest), filled up with their last elements."""
        found, start = np.empty((sum(count for count, _ in self.runs), self.longest), arrays[0].dtype), 0
        for array, (count, length) in zip(arrays, self.runs, strict=True):
            found[start : start + count, :length] = array
            found[start : start + count, length:] = array[:, -1:]
            start += count
        return found


@dataclass(frozen=True, eq=False)
class Extents:
    """The extents of stacked problems. A stacked array has one axis that counts the problems, the dimension `BESIDE`,
    and then one axis for each dimension of a problem."""

    sizes: Sequence[Mapping[str, int]]
    """For each problem its extents by dimension, in the order of the axes."""
    widest: Mapping[str, int]
    """The extents that all problems have after they are filled up."""

    def count(self, dim: str) -> F64:
        """Return the extent of each problem, shape (problems, 1, 1, ...) with an axis for each dimension."""
        sizes = np.array([each[dim] for each in self.sizes], dtype=np.float64)
        return sizes.reshape(-1, *(1 for _ in self.widest))

    def is_filled(self, dim: str) -> bool:
        """Whether some problem was filled up along a dimension."""
        return any(size[dim] != self.widest[dim] for size in self.sizes)

    def total(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """Return the sum of each problem's own elements along an axis, which is kept."""
        dim = [*self.widest][axis - 1]
        runs = [(size, len([*run])) for size, run in groupby(each[dim] for each in self.sizes)]
        if len(runs) == 1:
            found: NDArray[Any] = values.sum(axis=axis, keepdims=True)
            return found
        values = np.broadcast_to(values, (len(self.sizes), *values.shape[1:]))
        parts, start, before = [], 0, (slice(None),) * (axis - 1)
        for size, count in runs:
            own = values[(slice(start, start + count), *before, slice(0, size))]
            parts.append(own.sum(axis=axis, keepdims=True))
            start += count
        return np.concatenate(parts)

    def filled(self, arrays: Sequence[NDArray[Any]], dims: Sequence[str]) -> NDArray[Any]:
        """Return the arrays of all problems, each with these dimensions, filled up with last elements and stacked."""
        if not dims:
            return np.concatenate([array.reshape(1) for array in arrays])
        found = np.empty((len(arrays), *(self.widest[dim] for dim in dims)), arrays[0].dtype)
        for each, array in zip(found, arrays, strict=True):
            own = tuple(slice(0, size) for size in array.shape)
            each[own] = array
            for axis, size in enumerate(array.shape):  # elements added along one axis are repeated along the next
                rest = *((slice(None),) * axis), slice(size, None), *own[axis + 1 :]
                last = *((slice(None),) * axis), slice(size - 1, size), *own[axis + 1 :]
                each[rest] = each[last]
        return found


def rows_of(arrays: Sequence[NDArray[Any]], lengths: Lengths | None) -> NDArray[Any]:
    """Return arrays joined along the first axis, with their rows filled up if `lengths` is given."""
    return np.concatenate(arrays) if lengths is None or arrays[0].ndim == 1 else lengths.filled(arrays)


Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Segments of different lengths joined into one flat array, so that one pass serves many problems. Over segments
    only results are calculated that do not depend on the order of evaluation (maxima, minima, and whether all elements
    have a property). So the result of a segment does not depend on its place or on others. No segment is empty."""

    lengths: Places

    @staticmethod
    def of(lengths: Iterable[int]) -> Ragged:
        """Return segments of these lengths."""
        return Ragged(np.array(list(lengths), dtype=np.int64))

    @lazy
    def starts(self) -> Places:
        """Return the first place of each segment."""
        return self.lengths.cumsum() - self.lengths

    @lazy
    def slices(self) -> Sequence[slice]:
        """Return the slice of each segment in the flat array."""
        starts = self.starts.tolist()
        return [slice(start, start + length) for start, length in zip(starts, self.lengths.tolist(), strict=True)]

    def slice_of(self, segment: int) -> slice:
        """Return the slice of one segment in the flat array."""
        start = int(self.starts[segment])
        return slice(start, start + int(self.lengths[segment]))

    def largest(self, values: F64) -> F64:
        """Return the maximum of each segment; NaN if one of its values is NaN."""
        largest: F64 = np.maximum.reduceat(values, self.starts)
        return largest

    def smallest(self, values: F64) -> F64:
        """Return the minimum of each segment; NaN if one of its values is NaN."""
        smallest: F64 = np.minimum.reduceat(values, self.starts)
        return smallest

    def every(self, mask: Mask) -> Mask:
        """Return, for each segment, whether the mask is set at all its places."""
        if mask.all():  # nearly always true, and takes a tenth of the time
            return np.ones(len(self.lengths), bool)
        every: Mask = np.logical_and.reduceat(mask, self.starts)
        return every

    def places_from(self, firsts: Places) -> Places:
        """Return all places of segments that have these lengths but begin at the places `firsts` of another array."""
        return self.spread(firsts - self.starts) + np.arange(int(self.lengths.sum()))

    def first(self, mask: Mask) -> Places:
        """Return the first place in each segment where a mask is set, counted from its start; any place without one."""
        found = np.append(mask.nonzero()[0], len(mask))
        return np.minimum(found[np.searchsorted(found, self.starts)] - self.starts, self.lengths - 1)

    def rounded(self, values: F64, formats: Sequence[Format | None]) -> F64:
        """Return the values, with each segment rounded to its own format, or not rounded for None."""
        first, *others = dict.fromkeys(formats)
        if not others:
            return values if first is None else round_to(values, first)
        found = values.copy()
        for each in (first, *others):
            if each is not None:
                chosen = self.spread(np.array([other is each for other in formats]))
                found[chosen] = round_to(values[chosen], each)
        return found

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a flat array in which the value of each segment is repeated at each place of the segment."""
        return values.repeat(self.lengths)


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays of one dtype joined into one flat array."""
    return np.concatenate(arrays, axis=None)
