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

    @lazy
    def longest(self) -> int:
        """The length of a row that is filled up."""
        return max(length for _, length in self.runs)

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
        found, start = None, 0
        for array, (count, length) in zip(arrays, self.runs, strict=True):
            if found is None:
                found = np.empty((sum(count for count, _ in self.runs), self.longest), array.dtype)
            found[start : start + count, :length] = array
            found[start : start + count, length:] = array[:, -1:]
            start += count
        assert found is not None, "there is a row"
        return found

    def place(self, place: int, length: int) -> int:
        """The place of an element among rows of that length, from that among rows that are filled up."""
        row, column = divmod(place, self.longest)
        return row * length + column
