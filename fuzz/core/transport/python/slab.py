"""The memory of one tensor and around it. Bytes that the kernel does not own are poisoned. The contents of a slab at
the call are prepared on the host as its image. Afterwards they are compared with the image, on the host too."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fuzz.core.base.case import CACHE_LINE, STORAGE_LIMIT, Case, Layout, Output, Tensor
from oracles.dtypes import ITEMSIZE

Bytes = npt.NDArray[np.uint8]

OUTPUT_POISONS = (0x7FFD, 0x7FFA)
"""The poisons of outputs in the first and the second run. They are quiet NaNs like those of gaps, with other bits."""
_FIRST_GAP_POISON = 0x7FC1
"""The 16 bits that fill the gaps of the first tensor; each further tensor has the next number. They are a quiet NaN as
f16 and bf16, and repeated as f32 and f64. Gaps between elements of one byte have the lower byte."""
_NEAR_BYTES = 1024
"""The bytes around the elements of a slab with elements far apart that are poisoned and checked, as in `sparse.c`."""


class Slab:
    """The memory of one tensor, which an output may share with an input. A guarded slab ends at an inaccessible page or
    starts after one, as its layout says, and has a margin on the other side. Other slabs have margins on both sides. A
    slab with few elements that lie gigabytes apart has no contents but in `windows` around them."""

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
        length = self.start + self.size + behind
        self.is_sparse = self.size > STORAGE_LIMIT
        self.windows: Sequence[slice] = self._around_elements(length) if self.is_sparse else (slice(0, length),)
        self.image = sparse(length, self.windows) if self.is_sparse else np.empty(length, np.uint8)
        gap = poisoned(_FIRST_GAP_POISON + index, min(self.itemsize, 2))
        for window in self.windows:
            self.image[window].view(f"<u{min(self.itemsize, 2)}")[:] = gap
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

    def _around_elements(self, length: int) -> Sequence[slice]:
        """Return the bytes around the elements, in pieces that lie apart from each other."""
        places = np.unique(self._offsets()) * self.itemsize + self.start
        ends = np.flatnonzero(np.diff(places, append=np.inf) > 2 * _NEAR_BYTES + self.itemsize)
        starts = (0, *(ends[:-1] + 1))
        pairs = zip(places[[*starts]] - _NEAR_BYTES, places[ends] + self.itemsize + _NEAR_BYTES, strict=True)
        return [slice(max(int(start), 0), min(int(end), length)) for start, end in pairs]

    def after(self) -> Bytes:
        """Return the present contents of the slab, on the host."""
        if self.fetched is not None:
            return self.fetched
        if isinstance(self.memory, np.ndarray):
            return self.memory
        if not self.is_sparse:
            whole: Bytes = self.memory.cpu().numpy()
            return whole
        found = sparse(len(self.image), self.windows)
        for window in self.windows:
            found[window] = self.memory[window].cpu().numpy()
        return found

    def changes(self, after: Bytes, rejected: bool) -> npt.NDArray[np.int64]:
        """Return the places of the changed bytes that the kernel does not own. If it rejected its input, it owns
        none. A sparse slab is asked once, since its image then has what the kernel wrote."""
        expected = self.image
        if self.writable and not rejected:
            expected = expected if self.is_sparse else expected.copy()
            self.elements(expected)[...] = self.elements(after)
        return np.concatenate(
            [window.start + np.flatnonzero(after[window] != expected[window]) for window in self.windows]
        )

    def owns(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether the bytes at these places belong to elements."""
        mask = sparse(len(self.image), self.windows) if self.is_sparse else np.zeros(len(self.image), np.uint8)
        self.elements(mask)[...] = np.iinfo(self._unit).max
        return mask[places].astype(np.bool_)

    def nearest(self, byte: int) -> int:
        """Return the flat index of the element nearest to a byte of the storage, or -1 if there are no elements."""
        if self.layout.size == 0:
            return -1
        return int(np.abs(self._offsets() * self.itemsize - byte).argmin())

    def _offsets(self) -> npt.NDArray[np.int64]:
        """Return the distance of each element from the first one in memory, in elements."""
        offsets = np.full((), -self.layout.lowest, np.int64)
        for extent, stride in zip(self.layout.shape, self.layout.strides, strict=True):
            offsets = offsets[..., None] + np.arange(extent) * stride
        return offsets.reshape(-1)


def sparse(size: int, windows: Sequence[slice], *, elsewhere: int = mmap.PROT_READ) -> Bytes:
    """Return bytes that take no memory but in the windows, which are zero and may be written, as may the rest of their
    pages. All others are zero too, or inaccessible if `elsewhere` is 0. Raises MemoryError."""
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=elsewhere)
    except OSError as error:
        raise MemoryError from error
    start, libc = np.frombuffer(memory, np.uint8).ctypes.data, ctypes.CDLL(None)
    for window in windows:
        low = window.start // mmap.PAGESIZE * mmap.PAGESIZE
        address, length = ctypes.c_void_p(start + low), ctypes.c_size_t(window.stop - low)
        if libc.mprotect(address, length, mmap.PROT_READ | mmap.PROT_WRITE):
            raise MemoryError
    view: Any = (ctypes.c_uint8 * size).from_address(start)
    view.memory = memory  # it is unmapped with the last view
    return np.frombuffer(memoryview(view).cast("B"), np.uint8)


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
        size, elements = ITEMSIZE[tensor.dtype], tensor.layout.extent + (tensor.layout.offset if guarded else 0)
        if min(elements * size, tensor.layout.size * (size + 2 * _NEAR_BYTES)) > STORAGE_LIMIT:
            return True
    return False
