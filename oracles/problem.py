"""A problem: the part of a case that the oracle judges by, without layouts, recipes and kernels."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import judged
from oracles.formula.contract import Contract
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import AXIS
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
