"""What a kernel sees of one call: shapes, strides, dtypes, addresses and values of its tensors, and its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import CACHE_LINE
from oracles.doubledouble import F64
from oracles.dtypes import form
from oracles.ops import OPS
from oracles.rounding import NAMES

Array = NDArray[Any]


@dataclass(frozen=True)
class CallTensor:
    """One tensor of a call."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, like those of a case."""
    address: int
    """The address of its first element, in bytes modulo a cache line."""
    values: F64
    """Its values; an output's are what the memory holds before the call."""

    @classmethod
    def of(cls, array: Array) -> CallTensor:
        """Return what a kernel sees of an array."""
        with np.errstate(all="ignore"):
            values = array.astype(np.float64)
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return cls(NAMES[array.dtype], array.shape, strides, array.ctypes.data % CACHE_LINE, values)

    @property
    def steps(self) -> tuple[int, ...]:
        """The strides along axes of more than one element, the only ones by which elements are reached."""
        return tuple(step for extent, step in zip(self.shape, self.strides, strict=True) if extent > 1)

    @property
    def is_contiguous(self) -> bool:
        """Whether it is in C order without gaps."""
        reach = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent > 1 and stride != reach:
                return False
            reach *= extent
        return True

    @property
    def is_expanded(self) -> bool:
        """Whether several indices lead to one element."""
        return 0 in self.steps


@dataclass(frozen=True)
class PlantedCall:
    """One call of a kernel of `op`."""

    op: str
    seen: Mapping[str, CallTensor]
    """The inputs and outputs that are there."""
    parameters: Mapping[str, float]
    axis: int
    """The axis along which rows lie, counted from the first."""
    in_place: bool
    """Whether an output is an input's memory."""

    @classmethod
    def of(cls, op: str, tensors: Mapping[str, Array], parameters: Mapping[str, float], axis: int) -> PlantedCall:
        """Return the call in which a kernel is given these arrays."""
        main, outputs = OPS[op].main, {each.name for each in OPS[op].outputs}
        places = {name: array.ctypes.data for name, array in tensors.items() if array.size}
        sources = {place for name, place in places.items() if name not in outputs}
        in_place = any(place in sources for name, place in places.items() if name in outputs)
        seen = {name: CallTensor.of(array) for name, array in tensors.items()}
        return cls(op, seen, parameters, axis % max(tensors[main].ndim, 1), in_place)

    @property
    def main(self) -> CallTensor:
        """The first input."""
        return self.seen[OPS[self.op].main]

    @property
    def rank(self) -> int:
        """The number of dimensions of the first input."""
        return len(self.main.shape)

    @property
    def n(self) -> int:
        """The length of a row."""
        return self.main.shape[self.axis] if self.main.shape else 1

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod((*self.main.shape[: self.axis], *self.main.shape[self.axis + 1 :]))

    @property
    def step(self) -> int:
        """The distance from one element of a row to the next, in elements."""
        return self.main.strides[self.axis] if self.main.shape else 1

    def grid(self, name: str) -> F64:
        """Return the values of a tensor that has the shape of the first input, row by row."""
        return rows_of(self.seen[name].values, self.axis)

    def subnormal(self, name: str) -> Array:
        """Return which of its values are subnormal numbers, and not 0."""
        values = np.abs(self.grid(name))
        return (values > 0.0) & (values < form(self.seen[name].dtype).tiny)


def rows_of(values: F64, axis: int) -> F64:
    """Return the values row by row."""
    moved = np.moveaxis(values, axis, -1) if values.ndim else values.reshape(1)
    return moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])


def of_rows(rows: F64, shape: tuple[int, ...], axis: int) -> F64:
    """Return the values in that shape: the inverse of `rows_of`."""
    if not shape:
        return rows.reshape(())
    outer = (*shape[:axis], *shape[axis + 1 :])
    return np.moveaxis(rows.reshape(*outer, shape[axis]), -1, axis)
