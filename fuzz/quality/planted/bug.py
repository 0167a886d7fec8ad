"""A planted bug: where it strikes, what is wrong there, which no values can hide, and what a kernel sees of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.capability import Capabilities
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


Rows = NDArray[Any]
"""A truth value for each row."""
Kind = Literal["extent", "residue", "layout", "dtype", "value", "parameter"]
"""What a condition is about."""
Effect = Callable[[F64, Rows], tuple[F64, Rows]]
"""Takes the values of an output, row by row, and the struck rows; returns the values, and which are written."""


@dataclass(frozen=True)
class Condition:
    """What must hold for a bug to strike."""

    kind: Kind
    words: str
    """The condition as an expert would say it."""
    holds: Callable[[PlantedCall], bool | np.bool_ | Rows]
    """Whether the condition holds, for a call or for each of its rows."""


ANY = Capabilities(dtypes=("f32", "f16", "bf16"), strides="any")
"""What kernels with planted bugs accept, unless the bug says otherwise."""


@dataclass(frozen=True)
class Bug:
    """What is wrong with one kernel."""

    name: str
    op: str
    source: str
    """The documented bugs that this one is modelled on, by their numbers in the lists of bugs, and what they were."""
    conditions: tuple[Condition, ...]
    """It strikes the rows in which all of these hold, in tensors that have elements."""
    effect: Effect
    able: Capabilities = ANY
    output: str = ""
    """The output that is wrong; by default the op's first."""

    @property
    def rule(self) -> str:
        """When it fails, in plain words."""
        return " and ".join(each.words for each in self.conditions)

    def struck(self, call: PlantedCall) -> Rows:
        """Return which rows are wrong."""
        struck = np.full(call.rows, call.n > 0)
        if struck.any():
            with np.errstate(all="ignore"):
                for each in self.conditions:
                    struck = struck & each.holds(call)
        return struck


def _unwritten(values: F64, struck: Rows, count: int) -> tuple[F64, Rows]:
    written = np.ones(values.shape, dtype=bool)
    written[struck, -count:] = False
    return values, written


def _changed(values: F64, struck: Rows, at: int | slice, change: Callable[[F64], F64]) -> tuple[F64, Rows]:
    found = values.copy()
    found[struck, at] = change(found[struck, at])
    return found, np.ones(values.shape, dtype=bool)


def _raised(_: F64, struck: Rows, words: str) -> tuple[F64, Rows]:
    raise RuntimeError(f"{words} (row {int(np.argmax(struck))})")


def _to_nan(values: F64) -> F64:
    return np.where(np.isnan(values), 0.0, np.nan)


def _to_far(values: F64) -> F64:
    return np.where(np.isfinite(values), values + np.abs(values) + 1.0, 0.0)


def unwritten(last: int) -> Effect:
    """Return the effect that the `last` elements of a row are not written."""
    return partial(_unwritten, count=last)


def nan(at: int) -> Effect:
    """Return the effect that one element of a row is NaN; if it should be NaN, it is 0."""
    return partial(_changed, at=at, change=_to_nan)


def far(at: int) -> Effect:
    """Return the effect that one element of a row is off by at least 1 and half its own size. It is not used for
    gradients that cancel, which may hide it."""
    return partial(_changed, at=at, change=_to_far)


def zero() -> Effect:
    """Return the effect that the whole row is 0, for rows that cannot be 0."""
    return partial(_changed, at=slice(None), change=np.zeros_like)


def raises(words: str) -> Effect:
    """Return the effect that the call fails."""
    return partial(_raised, words=words)


WHOLE = 1 << 62
"""As a number of last elements of a row, all of them."""
