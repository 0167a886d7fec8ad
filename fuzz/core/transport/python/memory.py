"""Where tensors are placed: between margins in fresh memory, or flush against inaccessible pages."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fuzz.core.base.case import CACHE_LINE, STORAGE_LIMIT
from fuzz.core.transport.python.slab import Slab
from fuzz.core.transport.records import UNKNOWN_BYTE

_GUARD_BYTES = 64 << 20
"""The least inaccessible bytes before and after each tensor's pages: a stray by many rows still hits them."""
_SMALLEST_BYTES = 64 << 10
"""The pages of a tensor at first; they are kept from case to case, and doubled when they do not suffice."""
_LARGEST_BYTES = STORAGE_LIMIT + (1 << 20)
"""The largest storage, with its margin and its distance from the inaccessible page."""
_KEEP_BYTES = 16 << 20
"""Pages beyond this are given back after the case: many workers run the same large case at once."""
_SLOT_BYTES = 2 * _GUARD_BYTES + _LARGEST_BYTES
"""The addresses of one tensor. Those that are never used cost nothing."""
_NONE, _READ_AND_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


@dataclass(frozen=True)
class Touched:
    """The first byte that a kernel touched in the inaccessible pages around a tensor."""

    index: int
    """The tensor's index in the case."""
    byte: int
    """It counts from the nearest end of the storage, as in `Fault`."""
    element: int
    access: int


class CallMemory(Protocol):
    """Where the tensors of a case are placed for a call."""

    guarded: bool
    """Whether they lie flush against inaccessible pages. Then it holds one call's tensors at a time."""
    on_device: bool
    """Whether it is that of a GPU, where calls are only queued."""
    margin: int
    """The bytes that are poisoned and checked on every side of a tensor without an inaccessible page."""

    def place(self, slab: Slab) -> None:
        """Put the slab's image into memory. Raises MemoryError."""
        ...

    def stage(self, slab: Slab) -> None:
        """Prepare the slab's image, which is in memory after the next `send`."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether what is staged should be sent before more is."""
        ...

    def send(self) -> None:
        """Put everything that is staged into memory. What was there before is forgotten."""
        ...

    def fetch(self) -> None:
        """Bring back what was sent, and what was kept since, as it is now."""
        ...

    def keep(self, found: Any) -> Any:
        """Return a copy of what a kernel returned that no later call can reach."""
        ...

    def kept_bytes(self, found: Any) -> bytes | None:
        """Return the elements, in C order, of what was kept and then fetched; None for other arrays."""
        ...

    def watch(self) -> None:
        """Begin to note accesses to inaccessible memory."""
        ...

    def touched(self, slabs: list[Slab]) -> Touched | None:
        """Return the first access since `watch`, and around which of these slabs it was."""
        ...

    def release(self) -> None:
        """Give large memory back."""
        ...


class Placing:
    """Memory in which each slab is placed by itself, and read where it is."""

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
    """Memory of this process, new for every call."""

    def place(self, slab: Slab) -> None:
        room = np.empty(len(slab.image) + CACHE_LINE, np.uint8)
        start = -room.ctypes.data % CACHE_LINE
        slab.memory = room[start : start + len(slab.image)]
        slab.memory[:] = slab.image


class _Fault(ctypes.Structure):
    """The structure of `faults.c`."""

    _fields_ = (("address", ctypes.c_uint64), ("access", ctypes.c_uint32), ("claimed", ctypes.c_uint32))


class Arena(Placing):
    """Guarded memory: addresses are reserved once, and each tensor has a slot of them, in which it lies flush with the
    end of the accessible pages or with their start, as its layout says. `watcher` is the library made from `faults.c`,
    which notes what a kernel touches beyond them; without it an access ends the process."""

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
        self._fit(slab.index, len(slab.image))
        start = slab.index * _SLOT_BYTES + _GUARD_BYTES
        if slab.layout.guard == "after":
            start += self._open[slab.index] - len(slab.image)
        slab.memory = self._bytes[start : start + len(slab.image)]
        slab.memory[:] = slab.image

    def watch(self) -> None:
        if self._seen.address:  # nobody asked what it was
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
        if slab is None:  # so far from every tensor that it says nothing
            return Touched(-1, UNKNOWN_BYTE, -1, access)
        start = address - slab.memory.ctypes.data - slab.start
        inside = 0 <= start < slab.size  # a kernel that kept an earlier, larger call's memory, or closed its own
        byte = UNKNOWN_BYTE if inside else start if start < 0 else start - slab.size
        return Touched(index, byte, slab.nearest(start), access)

    def release(self) -> None:
        for index, size in enumerate(self._open):
            if size > _KEEP_BYTES:
                self._protect(index * _SLOT_BYTES, _SLOT_BYTES, _NONE)
                self._open[index] = 0

    def _fit(self, index: int, size: int) -> None:
        """Open as many pages of a slot as are needed."""
        if size > _LARGEST_BYTES:
            raise MemoryError
        room = self._open[index] or _SMALLEST_BYTES
        while room < size:
            room *= 2
        if room != self._open[index]:
            self._protect(index * _SLOT_BYTES + _GUARD_BYTES, min(room, _LARGEST_BYTES), _READ_AND_WRITE)
            self._open[index] = min(room, _LARGEST_BYTES)

    def _close(self) -> None:
        """Make what was opened around tensors inaccessible again, and forget what was written there."""
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


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    word = ctypes.c_size_t
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, word, ctypes.c_int)
    libc.madvise.argtypes = (ctypes.c_void_p, word, ctypes.c_int)
    return libc
