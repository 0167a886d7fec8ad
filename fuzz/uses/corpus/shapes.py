"""The extents that a sweep of a published suite says, and how many of its slices a gate keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fuzz.base.capability import MAX_RANK
from fuzz.findings.document import told
from oracles.op import Extents, Op
from oracles.operand import OUTER

MOST_ELEMENTS = 8192
"""The rows of a tensor in a gate are cut until it has this many elements, since rows beyond the first few repeat what
was seen."""
LONGEST_ROW = 32768
"""No gate has the time for a longer one, nor for more products for each element of a row."""
MOST_PRODUCTS = 64 * LONGEST_ROW
"""What an op of several contracted dimensions has at most: attention of 129 queries and keys of 64 elements."""
_LARGEST = 1 << 31
"""No number of a shape or a place is larger: published sweeps are of what fits into memory."""


@dataclass(frozen=True)
class SuiteShape:
    """The extents of a case: in a suite a list, the shape of the first input, or an object with a number for each named
    dimension and a list for "..."."""

    grid: tuple[int, ...]
    """The shape of the first input."""
    axis: int
    """The place of its row."""
    extents: Extents = field(default_factory=dict)
    """The extents of dimensions that the first input does not have."""

    @classmethod
    def of(cls, op: Op, axis: int, said: object) -> SuiteShape:
        """Return what a suite says, with the row along that axis of the first input. Raises ValueError."""
        if isinstance(said, list):
            grid, extents = tuple(map(_extent, said)), dict[str, int]()
        else:
            known = dict(said) if isinstance(said, Mapping) else {}
            if {*known} - {OUTER} != {*op.named}:
                raise ValueError(f"shapes: {told(said)} must be a list, or an object with {', '.join(op.named)}")
            grid = (*map(_extent, known.get(OUTER, [])), *(_extent(known[dim]) for dim in op.inner))
            extents = {dim: _extent(known[dim]) for dim in op.further}
        if not 0 < len(grid) <= MAX_RANK:
            raise ValueError(f"shapes: each needs from 1 to {MAX_RANK} axes")
        found = cls(grid, axis % len(grid), extents)
        if not op.possible_shapes(op.main, grid, found.axis, extents) or {*op.further} - extents.keys():
            raise ValueError(f"shapes: {told(said)} is no extents of {', '.join((*op.inputs[0].axes, *op.further))}")
        return found

    def __str__(self) -> str:
        return f"{self.grid} {dict(self.extents)}" if self.extents else str(self.grid)

    @property
    def places(self) -> int:
        """All extents multiplied, those that are 0 left out."""
        return math.prod(max(1, extent) for extent in (*self.grid, *self.extents.values()))

    def cut(self, op: Op) -> SuiteShape:
        """Return fewer slices along batched dimensions, from the outermost axis on, until the first input has at most
        MOST_ELEMENTS; then along those that only others have, until there are LONGEST_ROW places; and then once more
        along the first input's, until there are MOST_PRODUCTS."""
        extents = dict(self.extents)
        grid = self._cut(op, self.grid, MOST_ELEMENTS)
        for dim, size in self.extents.items():
            rest = math.prod((*grid, *(extent for other, extent in extents.items() if other != dim)))
            if rest and size and op.dimensions[dim].batched:
                extents[dim] = max(1, min(size, LONGEST_ROW // rest))
        if extents:
            grid = self._cut(op, grid, MOST_PRODUCTS // max(1, math.prod(extents.values())))
        return SuiteShape(grid, self.axis, extents)

    def _cut(self, op: Op, extents: Sequence[int], most: int) -> tuple[int, ...]:
        """Extents of the first input with fewer slices, until it has `most` elements."""
        grid = [*extents]
        for place, dim in enumerate(op.dims(op.main, len(grid), self.axis).split()):
            rest = math.prod(extent for other, extent in enumerate(grid) if other != place)
            if place != self.axis and rest and op.dimensions[dim].batched:
                grid[place] = max(1, min(grid[place], most // rest)) if grid[place] else 0
        return tuple(grid)


def integer(name: str, number: object) -> int:
    """Raise ValueError for what is no integer that a place can be."""
    if not isinstance(number, int) or abs(number) > _LARGEST:
        raise ValueError(f"{name}: {told(number)} is not an integer, or too large")
    return number


def _extent(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ValueError(f"shapes: {told(value)} is not an extent")
    return value
