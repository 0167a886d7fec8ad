"""Arrangement of the tensors of a problem: from the axes that kernels see to the axes of the formula, and back.

In the formula all unnamed dimensions are one dimension, "...". An arranged tensor has one axis for each of its
dimensions, (rows, n) for "... n", whichever axis the row has in the case. The axes of an arranged output are in the
order of the formula's dimensions.
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
    """The shapes of the inputs, by name."""
    axis: int
    """The axis of the first input along which a row lies."""

    @lazy
    def extents(self) -> Extents:
        """Return the extents along dimensions that the first input does not have."""
        return self.op.extents(self.given)

    @lazy
    def grid(self) -> Shape:
        """Return the shape of the first input."""
        return self.given[self.op.main]

    @lazy
    def outer(self) -> Shape:
        """Return the extents of the unnamed dimensions."""
        return self.op.outer(self.grid, self.axis)

    @lazy
    def sizes(self) -> Extents:
        """Return the extents of all dimensions. That of "..." is the product of the unnamed dimensions."""
        found = {OUTER: math.prod(self.outer), **self.op.sizes(self.grid, self.axis), **self.extents}
        return self.op.whole(found) or found

    def shape(self, name: str) -> Shape:
        """Return the shape of an output as the kernel returns it."""
        return self.op.shape(name, self.grid, self.axis, self.extents)

    def checked(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return an input unchanged. Raises ProblemError if its shape does not fit the first input and the op."""
        known = self.op.possible_shapes(name, self.grid, self.axis, self.extents)
        known = known if self.op.operand(name).stackable else known[:1]
        if array.shape not in known:
            wanted = " or ".join(str(shape) for shape in dict.fromkeys(known)) or self.op.operand(name).dims
            raise ProblemError(f"inputs.{name}: shape {array.shape}, expected {wanted}")
        return array

    def collapsed(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return a tensor with one axis for each of its dimensions, in the order in which the op declares them."""
        dims = self.op.operand(name).axes
        if name in self.op.alike and self.axis != array.ndim - 1:
            array = np.moveaxis(array, self.axis, -1)
        if OUTER not in dims:
            return array
        outer = array.ndim - (len(dims) - 1)
        return array.reshape(math.prod(array.shape[:outer]), *array.shape[outer:])

    def arranged(self, output: str, array: NDArray[Any], dims: Sequence[str]) -> NDArray[Any]:
        """Return an output with its axes in the order of the formula's `dims`; an axis of a dimension that it lacks has
        one element."""
        return np.atleast_1d(self.collapsed(output, array).transpose(self._order(output, dims)))

    def returned(self, output: str, values: NDArray[Any], sizes: Extents) -> NDArray[Any]:
        """Return an output in the shape that a kernel returns, from values with an axis for each dimension of the
        formula. An axis of the values has all elements of its dimension, or one element."""
        own, shape = self.op.operand(output).axes, self.shape(output)
        full = np.broadcast_to(values, [size if dim in own else 1 for dim, size in sizes.items()])
        found = full.reshape([size for dim, size in sizes.items() if dim in own])
        found = found.transpose(np.argsort(self._order(output, tuple(sizes))))
        if output not in self.op.alike:
            return found.reshape(shape)
        turned = (*shape[: self.axis], *shape[self.axis + 1 :], shape[self.axis])
        return np.moveaxis(found.reshape(turned), -1, self.axis)

    def place(self, output: str, flat: int, dims: Sequence[str]) -> Shape:
        """Return the index into the output as a kernel returns it, for a flat index into the arranged output."""
        own = self.op.operand(output).axes
        arranged = [own[axis] for axis in self._order(output, dims)]
        at = dict(zip(arranged, index_of(flat, tuple(self.sizes[dim] for dim in arranged)), strict=True))
        index = [each for dim in own for each in (index_of(at[dim], self.outer) if dim == OUTER else (at[dim],))]
        if output in self.op.alike:
            index.insert(self.axis, index.pop())
        return tuple(index)

    def _order(self, output: str, dims: Sequence[str]) -> list[int]:
        """Return the axes of a tensor in the order of the formula's dimensions."""
        own = self.op.operand(output).axes
        return sorted(range(len(own)), key=lambda axis: dims.index(own[axis]))
