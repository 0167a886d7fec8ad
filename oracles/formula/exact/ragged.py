"""Ragged arrays: segments of different lengths joined into one flat array, so that one pass serves many problems.

Only what no order of evaluation changes is formed of segments, maxima and minima and whether all of them hold: so a
segment gives the same wherever it lies, and whatever it is joined with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.enclosure import Mask
from oracles.lazy import lazy
from oracles.rounding import round_to

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Where segments of these lengths, none of them empty, lie in a flat array."""

    lengths: Places

    @staticmethod
    def of(lengths: Iterable[int]) -> Ragged:
        """Segments of so many elements."""
        return Ragged(np.array(list(lengths), dtype=np.int64))

    @lazy
    def starts(self) -> Places:
        """The first place of each segment."""
        return self.lengths.cumsum() - self.lengths

    @lazy
    def slices(self) -> Sequence[slice]:
        """The places of each segment."""
        starts = self.starts.tolist()
        return [slice(start, start + length) for start, length in zip(starts, self.lengths.tolist(), strict=True)]

    def slice_of(self, segment: int) -> slice:
        """The places of one segment."""
        start = int(self.starts[segment])
        return slice(start, start + int(self.lengths[segment]))

    def largest(self, values: F64) -> F64:
        """The maximum of each segment; NaN where one of its values is NaN."""
        largest: F64 = np.maximum.reduceat(values, self.starts)
        return largest

    def smallest(self, values: F64) -> F64:
        """The minimum of each segment; NaN where one of its values is NaN."""
        smallest: F64 = np.minimum.reduceat(values, self.starts)
        return smallest

    def every(self, mask: Mask) -> Mask:
        """Whether a mask is set in a whole segment."""
        if mask.all():  # as nearly always; it takes a tenth of the time
            return np.ones(len(self.lengths), bool)
        every: Mask = np.logical_and.reduceat(mask, self.starts)
        return every

    def places_from(self, firsts: Places) -> Places:
        """The places of segments of the same lengths that begin there, in another array."""
        return self.spread(firsts - self.starts) + np.arange(int(self.lengths.sum()))

    def first(self, mask: Mask) -> Places:
        """In each segment the first place where a mask is set, counted from the segment's own; any where it is not."""
        found = np.append(mask.nonzero()[0], len(mask))
        return np.minimum(found[np.searchsorted(found, self.starts)] - self.starts, self.lengths - 1)

    def rounded(self, values: F64, formats: Sequence[Format | None]) -> F64:
        """The values of each segment, rounded to its own format; None: not rounded."""
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
        """One value of each segment, at each of its places."""
        return values.repeat(self.lengths)


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays of one dtype one after the other, flat."""
    return np.concatenate(arrays, axis=None)
