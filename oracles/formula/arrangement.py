"""Arrangement: how the tensors of a problem, as kernels have them, are arranged for its formula, and back.

To the formula all dimensions that have no name are one, "...". Of a row op these are all but that of the rows, wherever
the rows lie: arranged are (rows, n) for the grid, (rows,) for one element of each row, and (n,) for columns. A tensor
of any other op has an axis for each of its dimensions, an output in the order in which the formula has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.lazy import lazy
from oracles.op import Extents, Op
from oracles.operand import OUTER
from oracles.problem import ProblemError, index_of

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Arrangement:
    """The shapes of one problem."""

    op: Op
    given: Mapping[str, Shape]
    """Those of the inputs."""
    axis: int
    """The axis of the rows."""

    @lazy
    def extents(self) -> Extents:
        """Along dimensions that the first input does not have."""
        return self.op.extents(self.given)

    @lazy
    def grid(self) -> Shape:
        """The shape of the first input."""
        return self.given[self.op.main]

    @lazy
    def length(self) -> int:
        """The length of a row of the first input."""
        return self.grid[self.axis]

    @lazy
    def rows(self) -> int:
        """The number of these rows."""
        return math.prod(self._outer)

    @lazy
    def _outer(self) -> Shape:
        return self.grid[: self.axis] + self.grid[self.axis + 1 :]

    @lazy
    def sizes(self) -> Extents:
        """The extents of all dimensions, of an op that is not a row op."""
        unnamed = self.grid[: len(self.grid) - len(self.op.inner)]
        return {OUTER: math.prod(unnamed), **self.op.sizes(self.grid), **self.extents}

    def shape(self, name: str) -> Shape:
        """Return the shape of an output as the kernel returns it."""
        return self.op.shape(name, self.grid, self.axis, self.extents)

    def checked(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """An input. Raises ProblemError where its shape does not fit."""
        known = self.op.shapes(name, self.grid, self.axis, self.extents)
        known = known if self.op.operand(name).stackable else known[:1]
        if array.shape not in known:
            wanted = " or ".join(str(shape) for shape in dict.fromkeys(known)) or self.op.operand(name).dims
            raise ProblemError(f"inputs.{name}: shape {array.shape}, expected {wanted}")
        return array

    def collapsed(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """A tensor with an axis for each of its dimensions, in its own order."""
        if self.op.role(name) == "grid" and self.op.by_rows:
            moved = array if self.axis == array.ndim - 1 else np.moveaxis(array, self.axis, -1)
            return moved.reshape(self.rows, self.length)
        dims = self.op.operand(name).axes
        if OUTER not in dims:
            return array
        outer = array.ndim - (len(dims) - 1)
        return array.reshape(math.prod(array.shape[:outer]), *array.shape[outer:])

    def arranged(self, output: str, array: NDArray[Any], dims: Sequence[str]) -> NDArray[Any]:
        """An output in the order of the formula's dimensions."""
        found = self.collapsed(output, array)
        return found if self.op.by_rows else found.transpose(self._order(output, dims))

    def returned(self, output: str, values: NDArray[Any], sizes: Extents) -> NDArray[Any]:
        """An output as a kernel returns it, from values that have an axis for each dimension of the formula, of so many
        elements or of one."""
        own = self.op.operand(output).axes
        full = np.broadcast_to(values, [size if dim in own else 1 for dim, size in sizes.items()])
        found = full.reshape([size for dim, size in sizes.items() if dim in own])
        if self.op.by_rows and self.op.role(output) == "grid":
            return np.moveaxis(found.reshape(*self._outer, self.length), -1, self.axis)
        return found.transpose(np.argsort(self._order(output, tuple(sizes)))).reshape(self.shape(output))

    def place(self, output: str, flat: int, dims: Sequence[str]) -> Shape:
        """Index into the output as returned, of an element of what is arranged."""
        shape = self.shape(output)
        if not self.op.by_rows:
            where = np.arange(math.prod(shape)).reshape(shape)
            return index_of(int(self.arranged(output, where, dims).reshape(-1)[flat]), shape)
        if self.op.role(output) != "grid" or self.axis == len(shape) - 1:
            return index_of(flat, shape)
        row, column = divmod(flat, self.length)
        outer = index_of(row, self._outer)
        return (*outer[: self.axis], column, *outer[self.axis :])

    def _order(self, output: str, dims: Sequence[str]) -> list[int]:
        """The axes of a tensor by the order of the formula's dimensions."""
        own = self.op.operand(output).axes
        return sorted(range(len(own)), key=lambda axis: dims.index(own[axis]))
