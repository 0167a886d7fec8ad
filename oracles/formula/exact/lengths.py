"""Lengths: rows of different lengths in one array, so that problems of different lengths are enclosed together.

Each row is filled up with its own last element, of which every operation makes what it makes of that element: maxima,
minima and whether all elements are something are those of the row. What is summed or counted are its own elements, in
the order in which they are summed in an array of rows of that length: a row says the same by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.lazy import lazy


@dataclass(frozen=True, eq=False)
class Lengths:
    """How many rows of which length lie one after the other."""

    runs: Sequence[tuple[int, int]]
    """The number of rows, and their length."""
    longest: int
    """The length of all rows when they are filled up."""

    @lazy
    def column(self) -> F64:
        """The length of each row: (rows, 1)."""
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

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of each row: (rows, 1)."""
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


def rows_of(arrays: Sequence[NDArray[Any]], lengths: Lengths | None) -> NDArray[Any]:
    """Arrays one after the other, whose rows are filled up where these are of several lengths."""
    return np.concatenate(arrays) if lengths is None or arrays[0].ndim == 1 else lengths.filled(arrays)
