"""A case: one complete, bit-exact input of an op. Its digest depends on everything that a kernel sees, and no more."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Final, Literal

from fuzz.core.base.errors import UsageError
from fuzz.core.base.feature import Label
from fuzz.core.base.text import printable
from oracles.dtypes import ITEMSIZE
from oracles.lazy import lazy

CACHE_LINE = 64
"""The number of bytes modulo which alignments are stated."""

STORAGE_LIMIT = 1 << 28
"""The size in bytes above which a storage is sparse, so that only the pages near its elements exist."""

SPARE = "spare"
"""The first input of a case without floats: one float, since cases have one, which no kernel gets."""
THREADS = "threads"
"""The param with the number of processor threads that a framework may use, by default one. Kernels do not get it."""

Guard = Literal["after", "before"]
BIG: Final = "big"
Shard = int | Literal["big"]
"""A part of a search that is reproducible by itself: its number, or the series of big cases."""
Relation = Literal["apart", "same", "overlap"]
"""How two storages relate: without a common byte; with the same elements at the same places; or in any other way."""


class CaseError(UsageError, ValueError):
    """A case that contradicts itself, or a case file that cannot be read. The message is one line, and names the field.
    Names and values in it come from the file."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor in memory. Shape and strides count elements; strides may be 0 or negative.

    The storage reaches from the lowest to the highest element touched. It lies `offset` elements away from an
    inaccessible page: before the page (`guard="after"`, which catches reads and writes past the end) or after it
    (`guard="before"`). With `offset` 0 it lies flush. Memory between the storage and the page, and on the storage's
    other side, is poisoned. On a GPU, and in a test's own process, there is a margin instead of the page, and the
    address is the same modulo a cache line.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    guard: Guard = "after"
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise CaseError(f"strides: {len(self.strides)} strides for {len(self.shape)} dimensions")
        if self.shape and min(self.shape) < 0:
            raise CaseError(f"shape: negative extent in {self.shape}")
        if self.offset < 0:
            raise CaseError(f"offset: {self.offset} is negative")

    @lazy
    def size(self) -> int:
        """The number of logical elements."""
        return math.prod(self.shape)

    @property
    def lowest(self) -> int:
        """The smallest offset of an element, relative to element [0, ..., 0]. Zero or negative."""
        return self._range[0]

    @property
    def extent(self) -> int:
        """The number of elements from the lowest to the highest one touched, gaps included."""
        return self._range[1]

    @lazy
    def _range(self) -> tuple[int, int]:
        if 0 in self.shape:
            return 0, 0
        lowest = highest = 0
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                lowest += (extent - 1) * stride
            else:
                highest += (extent - 1) * stride
        return lowest, highest - lowest + 1

    @property
    def span(self) -> tuple[int, int]:
        """The positions of the storage's first element and of the one after its last, counted from the guard page."""
        _, extent = self._range
        start = self.offset if self.guard == "before" else -(extent + self.offset)
        return start, start + extent

    def relation(self, other: Layout) -> Relation:
        """Return how this storage relates to another at the same guard page. Both have elements of the same size."""
        (start, end), (first, last) = self.span, other.span
        if self.size == 0 or other.size == 0 or end <= first or last <= start:
            return "apart"
        # an axis of one element may have any stride, since its stride is never used
        steps, theirs = (
            [stride for extent, stride in zip(each.shape, each.strides, strict=True) if extent > 1]
            for each in (self, other)
        )
        same = (self.shape, steps, start - self.lowest) == (other.shape, theirs, first - other.lowest)
        return "same" if same else "overlap"

    @lazy
    def looseness(self) -> int:
        """How loose the layout is. 0: C order without gaps. 1: rows with unit stride at equal distances of at least a
        row's length. 2: the same at any equal distances. 3: rows with unit stride. 4: anything else. Strides of axes of
        one element do not count."""
        if not self.size:
            return 0
        steps = [(extent, stride) for extent, stride in zip(self.shape, self.strides, strict=True) if extent != 1]
        dense = 1
        for extent, stride in reversed(steps):
            if stride != dense:
                break
            dense *= extent
        else:
            return 0
        if self.shape[-1] != 1 and steps.pop()[1] != 1:
            return 4
        # The outer axes must collapse into one axis of rows at equal distances.
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(steps)):
            return 3
        return 1 if all(stride >= self.shape[-1] for _, stride in steps) else 2

    def alignment(self, itemsize: int) -> int:
        """Return the address of element [0, ..., 0] modulo 64 bytes."""
        # the ends of the guard page are multiples of 64 bytes
        return (self.span[0] - self.lowest) * itemsize % CACHE_LINE


def contiguous(shape: tuple[int, ...], guard: Guard = "after", offset: int = 0) -> Layout:
    """Return a C-contiguous layout."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return Layout(shape, tuple(strides), guard, offset)


@dataclass(frozen=True)
class Tensor:
    """An input: its dtype, its layout, and the bits of its logical elements in C order, little-endian.

    With `alias` it is the same memory as the input of that name, which comes before it and has the same dtype, layout
    and bits.
    """

    dtype: str
    layout: Layout
    bits: bytes = field(repr=False)
    alias: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in ITEMSIZE:
            raise CaseError(f"dtype: unknown dtype {self.dtype!r}; known: {', '.join(ITEMSIZE)}")
        wanted = self.layout.size * ITEMSIZE[self.dtype]
        if len(self.bits) != wanted:
            raise CaseError(f"bits: {len(self.bits)} bytes for a tensor of {wanted} bytes")
        if self.dtype == "bool" and self.bits.strip(b"\0\1"):
            raise CaseError("bits: a bool is neither 0 nor 1")


@dataclass(frozen=True)
class Output:
    """An output to be written, in its own memory or, with `alias`, at the same guard page as the input of that name.

    With the layout of this input, it is written in place. With another layout it lies where its own offset and strides
    say: a few elements further on, overlapping the input in part, or right next to it.
    """

    dtype: str
    layout: Layout
    alias: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in ITEMSIZE:
            raise CaseError(f"dtype: unknown dtype {self.dtype!r}; known: {', '.join(ITEMSIZE)}")


@dataclass(frozen=True)
class Origin:
    """The origin of a case, for people. It is not part of the digest."""

    recipe: str = "manual"
    layout: str = "manual"
    seed: int = 0
    number: int = field(default=0, compare=False)
    """The number of the case in its shard of the search that made it, from 1; 0 if no search made it."""
    labels: tuple[Label, ...] = field(default=(), repr=False, compare=False)
    """The labels that the case visits, see `fuzz/core/generate/coverage.py`. Case files do not keep them."""
    shard: Shard | None = field(default=None, compare=False)
    """The shard of the search that made the case."""

    @property
    def name(self) -> str:
        """The name of the case in its search, without the search's seed and op: '17:33' or 'big:3'; '' if no search
        made the case in a way that can be repeated."""
        return f"{self.shard}:{self.number}" if self.number and self.shard is not None else ""


@dataclass(frozen=True)
class Case:
    """One complete input of `op`."""

    op: str
    params: Mapping[str, float | int]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Output]
    structured: bool = False
    """Whether rounding errors of the values are not random, so that only the worst-case budget is sound."""
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        for name, tensor in self.inputs.items():
            if tensor.alias is not None:
                self._check_shared(name, tensor)
        for name, output in self.outputs.items():
            if output.alias is None:
                continue
            if output.alias not in self.inputs:
                raise CaseError(f"outputs.{name}.alias: there is no input {output.alias!r}")
            source = self.inputs[output.alias]
            if (output.dtype, output.layout.guard) != (source.dtype, source.layout.guard):
                raise CaseError(f"outputs.{name}.alias: dtype and guard must be those of {output.alias!r}")
        for (one, first), (two, second) in combinations(self.outputs.items(), 2):
            together = first.alias is not None and self.home(first.alias) == self.home(second.alias)
            if together and first.layout.relation(second.layout) != "apart":
                raise CaseError(f"outputs.{two}: shares memory with outputs.{one}")

    def _check_shared(self, name: str, tensor: Tensor) -> None:
        before = list(self.inputs)[: list(self.inputs).index(name)]
        if tensor.alias not in before or self.inputs[tensor.alias].alias is not None:
            raise CaseError(f"inputs.{name}.alias: {tensor.alias!r} is no earlier input with memory of its own")
        if replace(tensor, alias=None) != self.inputs[tensor.alias]:
            raise CaseError(f"inputs.{name}.alias: dtype, layout and bits must be those of {tensor.alias!r}")

    def home(self, name: str | None) -> str | None:
        """Return the input whose memory the input `name` has: itself, unless it shares the memory of another."""
        return (self.inputs[name].alias or name) if name is not None else None

    def meetings(self) -> Iterator[tuple[str, str, Relation]]:
        """Yield (output, input, relation) for each output and each input with common memory."""
        for name, output in self.outputs.items():
            home = self.home(output.alias)
            for other, tensor in self.inputs.items() if home is not None else ():
                if self.home(other) != home:
                    continue
                relation = output.layout.relation(tensor.layout)
                if relation != "apart":
                    yield name, other, relation

    @lazy
    def exceeds_memory(self) -> bool:
        """Whether the storage of some tensor, gaps included, is too large to be held in memory."""
        return any(t.layout.extent * ITEMSIZE[t.dtype] > STORAGE_LIMIT for t in self.tensors.values())

    @lazy
    def apart(self) -> bool:
        """Whether every tensor has its own memory, or is an output exactly in place of one input."""
        shared = any(tensor.alias is not None for tensor in self.inputs.values())
        moved = any(o.alias is not None and o.layout != self.inputs[o.alias].layout for o in self.outputs.values())
        return not shared and not moved

    @lazy
    def tensors(self) -> dict[str, Tensor | Output]:
        """All inputs, followed by all outputs, by name."""
        return {**self.inputs, **self.outputs}

    @property
    def elements(self) -> int:
        """The number of logical elements of all inputs."""
        return sum(tensor.layout.size for tensor in self.inputs.values())

    @property
    def dtypes(self) -> frozenset[str]:
        """The dtypes of all tensors."""
        return frozenset(tensor.dtype for tensor in self.tensors.values())

    def __hash__(self) -> int:
        return hash(self.digest)

    @lazy
    def digest(self) -> str:
        """SHA-256 over everything that the kernel and the oracle see, in hex."""
        head = {
            "op": self.op,
            "params": {name: _exact(value) for name, value in self.params.items()},
            "inputs": {
                name: [t.dtype, _layout_key(t.layout), *([t.alias] if t.alias is not None else [])]
                for name, t in self.inputs.items()
            },
            "outputs": {name: [o.dtype, _layout_key(o.layout), o.alias] for name, o in self.outputs.items()},
            "structured": self.structured,
        }
        digest = hashlib.sha256(json.dumps(head, sort_keys=True, separators=(",", ":")).encode())
        for name in sorted(self.inputs):
            digest.update(self.inputs[name].bits)
        return digest.hexdigest()


def _exact(value: float | int) -> str | int:
    return value if isinstance(value, int) else float(value).hex()


def _layout_key(layout: Layout) -> list[object]:
    return [list(layout.shape), list(layout.strides), layout.guard, layout.offset]
