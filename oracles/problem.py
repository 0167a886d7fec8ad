"""A problem: the part of a case that the oracle judges by, without layouts, recipes and kernels; and the arrangement of
its tensors, from the axes that kernels see to the axes of the formula, and back.

In the formula all unnamed dimensions are one dimension, "...". An arranged tensor has one axis for each of its
dimensions, (rows, n) for "... n", whichever axis the row has in the case. The axes of an arranged output are in the
order of the formula's dimensions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import judged
from oracles.formula.contract import Contract
from oracles.lazy import lazy
from oracles.op import Extents, Op
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS
from oracles.rounding import NAMES, is_known

_LOT_ELEMENTS = 256
"""The number of elements from the start of each input that decide `lot`: problems nearly always differ there."""


class ProblemError(ValueError):
    """A problem that contradicts itself. The message starts with the name of the field at fault."""


@dataclass(frozen=True)
class Problem:
    """One evaluation of `op`. `inputs` hold logical values in their storage dtype, without their layout in memory."""

    op: str
    params: Mapping[str, float | int]
    inputs: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, str]
    """The dtype name of each output, by the output's name."""
    structured: bool = False
    """Whether rows are constant, monotone or powers of two. Then rounding errors are not random, and only the worst
    case is a sound bound."""
    known: Op | None = None
    """The op, if it is not registered under its name."""

    def __post_init__(self) -> None:
        for name, array in self.inputs.items():
            if not is_known(array.dtype):
                raise ProblemError(f"inputs.{name}: unknown dtype {array.dtype}; known: {', '.join(NAMES.values())}")
        for name, dtype in self.outputs.items():
            judged(dtype, f"outputs.{name}")
        for parameter in OPS[self.op].parameters if self.op in OPS else ():
            value = self.params.get(parameter.name, 0.0)
            if parameter.name in self.params and not (math.isfinite(value) and value >= parameter.least):
                least = f" and at least {parameter.least:g}" if math.isfinite(parameter.least) else ""
                raise ProblemError(f"params.{parameter.name}: must be finite{least}, not {value}")

    @lazy
    def digest(self) -> str:
        """Return a hash of the op, the parameters and the inputs, as 64 hexadecimal digits."""
        digest = hashlib.sha256(repr((self.op, sorted(self.params.items()), self.structured)).encode())
        for name in sorted(self.inputs):
            array = np.ascontiguousarray(self.inputs[name])
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    @lazy
    def lot(self) -> int:
        """Return 32 bits, calculated from the inputs, that decide which passes the precise tier confirms. They take far
        less time than a digest, and several problems may have the same bits."""
        lot = 0
        for array in self.inputs.values():
            lot = crc32(array.reshape(-1)[:_LOT_ELEMENTS].view(np.uint8).data, lot)
        return lot

    def input(self, name: str) -> NDArray[Any]:
        """Return the input called `name`. Raises `ProblemError` if it is missing."""
        try:
            return self.inputs[name]
        except KeyError:
            raise ProblemError(f"inputs.{name}: {self.op} needs it") from None

    @lazy
    def of_op(self) -> Op:
        """Return the op. Raises `ProblemError` if it is unknown."""
        if self.known is not None:
            return self.known
        if self.op not in OPS:
            raise ProblemError(f"op: unknown op {self.op!r}; known: {', '.join(OPS)}")
        return OPS[self.op]

    @property
    def main(self) -> NDArray[Any]:
        """The first input, whose shape decides the shapes of the other tensors."""
        return self.input(self.of_op.main)

    @lazy
    def axis(self) -> int:
        """Return the axis of the first input along which a row lies, counted from 0. Raises `ProblemError` if there is
        no such axis."""
        rank = self.main.ndim
        axis = int(self.params.get(AXIS, -1))
        if not -rank <= axis < rank:
            raise ProblemError(f"params.axis: {axis} is not an axis of a tensor of rank {rank}")
        return axis % rank


@lru_cache(maxsize=4096)
def lots(outputs: tuple[str, ...], contract: Contract) -> tuple[int, ...]:
    """Return 32 bits for each output, which differ between contracts. They are cached, since writing a contract as text
    takes longer than judging a small output."""
    return tuple(crc32(f"{output} {contract}".encode()) for output in outputs)


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of a flat index, as np.unravel_index does, but much faster."""
    index = []
    for extent in reversed(shape):
        flat, at = divmod(flat, extent)
        index.append(at)
    return tuple(reversed(index))


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
