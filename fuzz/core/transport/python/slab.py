"""The memory of one tensor and around it. Bytes that the kernel does not own are poisoned. The contents of a slab at
the call are prepared on the host as its image. Afterwards they are compared with the image, on the host too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fuzz.core.base.case import CACHE_LINE, STORAGE_LIMIT, Case, Layout, Output, Tensor
from oracles.dtypes import ITEMSIZE

Bytes = npt.NDArray[np.uint8]

OUTPUT_POISONS = (0x7FFD, 0x7FFA)
"""The poisons of outputs in the first and the second run. They are quiet NaNs like those of gaps, with other bits."""
_FIRST_GAP_POISON = 0x7FC1
"""The first poison of gaps: a quiet NaN as f16, bf16, f32 and f64. Every tensor has another one. For elements of one
byte, the lower byte is the poison."""


class Slab:
    """The memory of one tensor, which an output may share with an input. A guarded slab ends at an inaccessible page or
    starts after one, as its layout says, and has a margin on the other side. Other slabs have margins on both sides."""

    def __init__(self, index: int, tensor: Tensor | Output, margin: int, poison: int, guarded: bool) -> None:
        self.index = index
        self.layout: Layout = tensor.layout
        self.itemsize = ITEMSIZE[tensor.dtype]
        self.dtype = tensor.dtype
        self.writable = isinstance(tensor, Output)
        self.poison = poison
        layout = self.layout
        self.size = layout.extent * self.itemsize
        self.start, behind = _around(layout, self.itemsize, margin, guarded)
        self.image = np.empty(self.start + self.size + behind, np.uint8)
        gap = poisoned(_FIRST_GAP_POISON + index, min(self.itemsize, 2))
        self.image.view(f"<u{min(self.itemsize, 2)}")[:] = gap
        if isinstance(tensor, Tensor):
            self.elements(self.image)[...] = np.frombuffer(tensor.bits, self._unit).reshape(layout.shape)
        else:
            self.elements(self.image)[...] = poisoned(poison, self.itemsize)
        self.memory: Any = None
        """Where the image was placed: an array of bytes, or, on a GPU, a torch tensor."""
        self.fetched: Bytes | None = None
        """The contents of the memory when it was fetched together with other slabs."""

    @property
    def _unit(self) -> str:
        return f"<u{self.itemsize}"

    def elements(self, memory: Bytes) -> npt.NDArray[Any]:
        """Return the logical elements in a slab's bytes, as unsigned integers."""
        return self.array(memory, self._unit)

    def array(self, memory: Bytes, dtype: Any) -> npt.NDArray[Any]:
        """Return the logical elements in a slab's bytes, as numbers of another type of the same size."""
        if self.layout.size == 0:
            return np.empty(self.layout.shape, dtype)
        strides = [stride * self.itemsize for stride in self.layout.strides]
        at = self.start - self.layout.lowest * self.itemsize
        return np.ndarray(self.layout.shape, dtype, memory.data, at, strides)

    def after(self) -> Bytes:
        """Return the present contents of the slab, on the host."""
        if self.fetched is not None:
            return self.fetched
        found: Bytes = self.memory if isinstance(self.memory, np.ndarray) else self.memory.cpu().numpy()
        return found

    def changes(self, after: Bytes, rejected: bool) -> npt.NDArray[np.bool_]:
        """Return a mask of the changed bytes that the kernel does not own. If it rejected its input, it owns none."""
        expected = self.image
        if self.writable and not rejected:
            expected = expected.copy()
            self.elements(expected)[...] = self.elements(after)
        return np.not_equal(after, expected)

    def owned(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the bytes that belong to elements."""
        mask = np.zeros(len(self.image), np.uint8)
        self.elements(mask)[...] = np.iinfo(self._unit).max
        return mask.astype(np.bool_)

    def nearest(self, byte: int) -> int:
        """Return the flat index of the element nearest to a byte of the storage, or -1 if there are no elements."""
        if self.layout.size == 0:
            return -1
        offsets = np.zeros((), np.int64)
        for extent, stride in zip(self.layout.shape, self.layout.strides, strict=True):
            offsets = offsets[..., None] + np.arange(extent) * stride
        return int(np.abs((offsets.reshape(-1) - self.layout.lowest) * self.itemsize - byte).argmin())


def poisoned(poison: int, itemsize: int) -> int:
    """Return the bits of an element that is filled with the poison."""
    return int.from_bytes((poison.to_bytes(2, "little") * 4)[:itemsize], "little")


def _around(layout: Layout, itemsize: int, margin: int, guarded: bool) -> tuple[int, int]:
    """Return the number of bytes before and after the storage."""
    if not guarded:  # the same address as beside a page, modulo a cache line
        return -(-margin // CACHE_LINE) * CACHE_LINE + layout.span[0] * itemsize % CACHE_LINE, margin
    distance = layout.offset * itemsize
    return (distance, margin) if layout.guard == "before" else (margin, distance)


def slabs(case: Case, margin: int, poison: int, guarded: bool) -> dict[str, Slab]:
    """Return the slab of every tensor. An output in an input's memory has that input's slab."""
    found: dict[str, Slab] = {}
    for index, (name, tensor) in enumerate(case.tensors.items()):
        if isinstance(tensor, Output) and tensor.alias is not None:
            found[name] = found[tensor.alias]
            found[name].writable = True
        else:
            found[name] = Slab(index, tensor, margin, poison, guarded)
    return found


def too_large(case: Case, guarded: bool) -> bool:
    """Return whether a case is too large to be run, since every target would hold its memory at the same time."""
    for tensor in case.tensors.values():
        elements = tensor.layout.extent + (tensor.layout.offset if guarded else 0)
        if elements * ITEMSIZE[tensor.dtype] > STORAGE_LIMIT:
            return True
    return False
