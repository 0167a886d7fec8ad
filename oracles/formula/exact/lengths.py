"""Lengths: rows of different lengths in one array, or whole problems, so that they are enclosed together.

Each row is filled up with its own last element, of which every operation makes what it makes of that element: maxima,
minima and whether all elements are something are those of the row. What is summed or counted are its own elements, in
the order in which they are summed in an array of rows of that length: a row says the same by itself. Problems whose
rows depend on each other lie beside each other along a dimension of their own, and are filled up along all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.lazy import lazy

BESIDE = "#"
"""The first dimension of problems that lie beside each other. No op has one of this name."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """How many rows of which length lie one after the other."""

    runs: Sequence[tuple[int, int]]
    """The number of rows, and their length."""
    longest: int
    """The length of all rows when they are filled up."""

    def count(self, dim: str) -> F64:
        """The length of each row: (rows, 1)."""
        return self._column

    def is_filled(self, dim: str) -> bool:
        """Whether rows are shorter than the longest."""
        return any(length != self.longest for _, length in self.runs)

    @lazy
    def _column(self) -> F64:
        counts, lengths = np.array(self.runs, dtype=np.int64).T
        return np.repeat(lengths.astype(np.float64), counts)[:, None]

    @lazy
    def _spans(self) -> Sequence[tuple[slice, int]]:
        """Rows of one length that lie beside each other."""
        found, start = list[tuple[slice, int]](), 0
        for length, runs in groupby(self.runs, key=lambda run: run[1]):
            end = start + sum(count for count, _ in runs)
            found.append((slice(start, end), length))
            start = end
        return found

    def total(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """The sum of each row, along the second axis: (rows, 1)."""
        parts = [values[span, :length].sum(axis=1, keepdims=True) for span, length in self._spans]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def filled(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The rows of these arrays, one for each run, one after the other."""
        found, start = np.empty((sum(count for count, _ in self.runs), self.longest), arrays[0].dtype), 0
        for array, (count, length) in zip(arrays, self.runs, strict=True):
            found[start : start + count, :length] = array
            found[start : start + count, length:] = array[:, -1:]
            start += count
        return found


@dataclass(frozen=True, eq=False)
class Extents:
    """Problems that lie beside each other, and their extents. Arrays of them have an axis for `BESIDE`, the first, and
    one for each dimension."""

    sizes: Sequence[Mapping[str, int]]
    """The sizes of each problem, in the order of the axes."""
    widest: Mapping[str, int]
    """Those of all problems when they are filled up."""

    def count(self, dim: str) -> F64:
        """The extent of each problem, in an axis for each dimension."""
        sizes = np.array([each[dim] for each in self.sizes], dtype=np.float64)
        return sizes.reshape(-1, *(1 for _ in self.widest))

    def is_filled(self, dim: str) -> bool:
        """Whether problems are shorter than the longest along a dimension."""
        return any(size[dim] != self.widest[dim] for size in self.sizes)

    def total(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """The sum of each problem along an axis, which is kept."""
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
        """An array of each problem, of these dimensions, beside each other."""
        if not dims:
            return np.concatenate([array.reshape(1) for array in arrays])
        found = np.empty((len(arrays), *(self.widest[dim] for dim in dims)), arrays[0].dtype)
        for each, array in zip(found, arrays, strict=True):
            own = tuple(slice(0, size) for size in array.shape)
            each[own] = array
            for axis, size in enumerate(array.shape):  # what is filled up along one axis is so along the next with it
                rest = *((slice(None),) * axis), slice(size, None), *own[axis + 1 :]
                last = *((slice(None),) * axis), slice(size - 1, size), *own[axis + 1 :]
                each[rest] = each[last]
        return found


def rows_of(arrays: Sequence[NDArray[Any]], lengths: Lengths | None) -> NDArray[Any]:
    """Arrays one after the other, whose rows are filled up where these are of several lengths."""
    return np.concatenate(arrays) if lengths is None or arrays[0].ndim == 1 else lengths.filled(arrays)
