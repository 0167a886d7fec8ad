"""Where tensors are placed: between margins in fresh memory, or flush against inaccessible pages."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fuzz.core.base.case import CACHE_LINE, STORAGE_LIMIT
from fuzz.core.transport.python.slab import Slab, sparse
from fuzz.core.transport.records import UNKNOWN_BYTE

_GUARD_BYTES = 64 << 20
"""The least inaccessible bytes before and after a tensor's pages. An access many rows away still hits them."""
_SMALLEST_BYTES = 64 << 10
"""The initial size in bytes of a tensor's pages. They are kept from case to case, and doubled if too small."""
_LARGEST_BYTES = STORAGE_LIMIT + (1 << 20)
"""The size in bytes of the largest storage, with its margin and its distance from the inaccessible page."""
_KEEP_BYTES = 16 << 20
"""The size in bytes above which pages are given back after a case, since many workers run one large case at once."""
_SLOT_BYTES = 2 * _GUARD_BYTES + _LARGEST_BYTES
"""The size in bytes of the range of addresses for one tensor. Unused addresses cost nothing."""
_NONE, _READ_AND_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


@dataclass(frozen=True)
class Touched:
    """The first access of a kernel to inaccessible pages around a tensor."""

    index: int
    """The tensor's index in the case."""
    byte: int
    """The number of bytes past the storage's end (0 for the first byte after it), or before its start (negative)."""
    element: int
    access: int


class CallMemory(Protocol):
    """Memory in which the tensors of a case are placed for a call."""

    guarded: bool
    """Whether tensors lie flush against inaccessible pages. Then the memory holds the tensors of one call at a time."""
    on_device: bool
    """Whether the memory is that of a GPU, where calls are only queued."""
    margin: int
    """The bytes that are poisoned and checked on every side of a tensor without an inaccessible page."""

    def place(self, slab: Slab) -> None:
        """Put the slab's image into memory. Raise MemoryError."""
        ...

    def stage(self, slab: Slab) -> None:
        """Prepare the slab's image, which is in memory after the next `send`."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the staged slabs should be sent before more are staged."""
        ...

    def send(self) -> None:
        """Put all staged slabs into memory, and forget the slabs that were there before."""
        ...

    def fetch(self) -> None:
        """Copy back the slabs that were sent and the arrays kept since, with their present contents."""
        ...

    def keep(self, found: Any) -> Any:
        """Return a copy of an array that a kernel returned. No later call can reach the copy."""
        ...

    def kept_bytes(self, found: Any) -> bytes | None:
        """Return the elements, in C order, of an array that was kept and then fetched, or None for other arrays."""
        ...

    def watch(self) -> None:
        """Start to record accesses to inaccessible memory."""
        ...

    def touched(self, slabs: list[Slab]) -> Touched | None:
        """Return the first access since `watch`, with the slab around which it was, or None."""
        ...

    def release(self) -> None:
        """Give large pieces of memory back to the system."""
        ...


class Placing:
    """Memory in which each slab is placed separately, and read in place."""

    on_device = False

    @property
    def is_full(self) -> bool:
        return False

    def place(self, slab: Slab) -> None:
        raise NotImplementedError

    def stage(self, slab: Slab) -> None:
        self.place(slab)

    def send(self) -> None: ...

    def fetch(self) -> None: ...

    def keep(self, found: Any) -> Any:
        return found

    def kept_bytes(self, found: Any) -> bytes | None:
        return None


class Margins(Placing):
    """Memory without inaccessible pages."""

    guarded = False

    def __init__(self, margin: int) -> None:
        self.margin = margin

    def watch(self) -> None: ...

    def touched(self, slabs: list[Slab]) -> Touched | None:
        return None

    def release(self) -> None: ...


class FreshMemory(Margins):
    """Memory of this process that is new for every call."""

    def place(self, slab: Slab) -> None:
        if slab.is_sparse:
            place_apart(slab)
            return
        fresh = np.empty(len(slab.image) + CACHE_LINE, np.uint8)
        start = -fresh.ctypes.data % CACHE_LINE
        slab.memory = fresh[start : start + len(slab.image)]
        slab.memory[:] = slab.image


class _Fault(ctypes.Structure):
    """The structure in `faults.c` that describes an access."""

    _fields_ = (("address", ctypes.c_uint64), ("access", ctypes.c_uint32), ("claimed", ctypes.c_uint32))


class Arena(Placing):
    """Guarded memory. Addresses are reserved once, with one slot for each tensor. A tensor lies flush with the end or
    with the start of its slot's accessible pages, as its layout says. `watcher` is the library made from `faults.c`,
    which records accesses beyond these pages. Without it, such an access ends the process."""

    guarded = True

    def __init__(self, margin: int, tensors: int, watcher: str) -> None:
        self.margin = margin
        self._libc = _libc()
        self._size = tensors * _SLOT_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._start = self._libc.mmap(None, self._size, _NONE, flags, -1, 0)
        if self._start == ctypes.c_void_p(-1).value:
            raise MemoryError(f"cannot reserve {self._size >> 20} MiB of addresses for guarded memory")
        reserved = (ctypes.c_uint8 * self._size).from_address(self._start)
        self._bytes = np.frombuffer(memoryview(reserved).cast("B"), np.uint8)
        self._open = [0] * tensors
        self._watch = ctypes.CDLL(watcher).kf_watch if watcher else None
        if self._watch is not None:
            self._watch.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Fault))
        self._seen = _Fault()
        self.watch()

    def place(self, slab: Slab) -> None:
        if slab.is_sparse:
            place_apart(slab)
            return
        self._fit(slab.index, len(slab.image))
        start = slab.index * _SLOT_BYTES + _GUARD_BYTES
        if slab.layout.guard == "after":
            start += self._open[slab.index] - len(slab.image)
        slab.memory = self._bytes[start : start + len(slab.image)]
        slab.memory[:] = slab.image

    def watch(self) -> None:
        if self._seen.address:  # an access that nobody asked about
            self._close()
        if self._watch is not None:
            self._watch(self._start, self._size, self._seen)

    def touched(self, slabs: list[Slab]) -> Touched | None:
        if not self._seen.address:
            return None
        self._close()
        address, access = self._seen.address, self._seen.access
        self._seen.address = 0
        index = (address - self._start) // _SLOT_BYTES
        slab = next((each for each in slabs if each.index == index), None)
        if slab is None:  # too far from every tensor to tell anything
            return Touched(-1, UNKNOWN_BYTE, -1, access)
        start = address - slab.memory.ctypes.data - slab.start
        inside = 0 <= start < slab.size  # in memory of an earlier, larger call, or closed by the kernel
        byte = UNKNOWN_BYTE if inside else start if start < 0 else start - slab.size
        return Touched(index, byte, slab.nearest(start), access)

    def release(self) -> None:
        for index, size in enumerate(self._open):
            if size > _KEEP_BYTES:
                self._protect(index * _SLOT_BYTES, _SLOT_BYTES, _NONE)
                self._open[index] = 0

    def _fit(self, index: int, size: int) -> None:
        """Make enough pages of a slot accessible for `size` bytes. Raise MemoryError if the slot is too small."""
        if size > _LARGEST_BYTES:
            raise MemoryError
        room = self._open[index] or _SMALLEST_BYTES
        while room < size:
            room *= 2
        if room != self._open[index]:
            self._protect(index * _SLOT_BYTES + _GUARD_BYTES, min(room, _LARGEST_BYTES), _READ_AND_WRITE)
            self._open[index] = min(room, _LARGEST_BYTES)

    def _close(self) -> None:
        """Make the pages that were opened around tensors inaccessible again, and drop their contents."""
        for index, size in enumerate(self._open):
            start = index * _SLOT_BYTES
            behind = _GUARD_BYTES + size
            self._protect(start, _GUARD_BYTES, _NONE)
            self._protect(start + behind, _SLOT_BYTES - behind, _NONE)

    def _protect(self, start: int, size: int, access: int) -> None:
        if self._libc.mprotect(self._start + start, size, access) != 0:
            raise MemoryError
        if access == _NONE:
            self._libc.madvise(self._start + start, size, mmap.MADV_DONTNEED)


def place_apart(slab: Slab) -> None:
    """Put the windows of a sparse slab into fresh memory. What lies between them, and as much before and behind, where
    a place that overflows 32 bits leads, is inaccessible: who reads it ends."""
    size = len(slab.image)
    # The storage ends, or starts, at a page.
    page = slab.start + slab.size if slab.layout.guard == "after" else slab.start
    first = size + -(size + page) % mmap.PAGESIZE
    windows = [slice(first + each.start, first + each.stop) for each in slab.windows]
    slab.memory = sparse(3 * size, windows, elsewhere=_NONE)[first : first + size]
    for window in slab.windows:
        slab.memory[window] = slab.image[window]


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    word = ctypes.c_size_t
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, word, ctypes.c_int)
    libc.madvise.argtypes = (ctypes.c_void_p, word, ctypes.c_int)
    return libc
