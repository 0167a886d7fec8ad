"""Bytes of a GPU of which only the pages around some places have memory. The calls are those of the CUDA Driver API,
"Virtual Memory Management", made by ctypes: torch's own allocator takes memory for all that it hands out."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_PINNED, _ON_DEVICE, _READ_AND_WRITE = 1, 1, 3
_Address, _Size = ctypes.c_ulonglong, ctypes.c_size_t


class _MemoryPlace(ctypes.Structure):
    """The structure CUmemLocation of cuda.h."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _MemoryKind(ctypes.Structure):
    """The structure CUmemAllocationProp of cuda.h."""

    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("place", _MemoryPlace), ("meta", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )  # fmt: skip


class _MemoryAccess(ctypes.Structure):
    """The structure CUmemAccessDesc of cuda.h."""

    _fields_ = (("place", _MemoryPlace), ("flags", ctypes.c_int))


@dataclass
class ReservedBytes:
    """Addresses of a GPU. Those in the windows have memory, in whole pages, and all others have none. As many addresses
    before and behind them have none either: a place that overflows 32 bits lies there, and ends the CUDA context."""

    size: int
    windows: Sequence[slice]
    device: int
    driver: Any
    start: int = field(init=False, default=0)
    _reserved: tuple[int, int] = field(init=False, default=(0, 0))
    _mapped: list[tuple[int, int]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        place = _MemoryPlace(_ON_DEVICE, self.device)
        kind, access = _MemoryKind(type=_PINNED, place=place), _MemoryAccess(place, _READ_AND_WRITE)
        page, address = _Size(), _Address()
        self._call("GetAllocationGranularity", ctypes.byref(page), ctypes.byref(kind), ctypes.c_int(0))
        before = -(-self.size // page.value) * page.value
        self._call("AddressReserve", ctypes.byref(address), _Size(3 * before), _Size(0), _Address(0), _Address(0))
        self._reserved, self.start = (address.value, 3 * before), address.value + before
        # The first byte too, since torch asks where it is.
        for low, high in whole_pages([slice(0, 1), *self.windows], page.value):
            handle, at, size = _Address(), _Address(self.start + low), _Size(high - low)
            self._call("Create", ctypes.byref(handle), size, ctypes.byref(kind), _Address(0))
            try:
                self._call("Map", at, size, _Size(0), handle, _Address(0))
                self._mapped.append((at.value, size.value))
            finally:  # it exists for as long as it is mapped
                self._call("Release", handle)
            self._call("SetAccess", at, size, ctypes.byref(access), _Size(1))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Tells libraries where the bytes are."""
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.start, False), "strides": None, "version": 3}

    def _call(self, name: str, *args: object) -> None:
        """Call a function of the driver. Raises MemoryError."""
        if failed := getattr(self.driver, f"cuMem{name}")(*args):
            raise MemoryError(f"cuMem{name} returned {failed}")

    def __del__(self) -> None:
        self.driver.cuCtxSynchronize()  # what still runs may use it
        for at, size in self._mapped:
            self.driver.cuMemUnmap(_Address(at), _Size(size))
        if self._reserved[0]:
            self.driver.cuMemAddressFree(*map(_Address, self._reserved))


def reserved(device: Any, size: int, windows: Sequence[slice]) -> Any:
    """Return bytes of a device of torch, a tensor that has memory in the windows alone. Raises MemoryError."""
    import torch

    made = torch.empty(1, device=device).device  # with its number; and the GPU has a context now
    found = ReservedBytes(size, windows, made.index, ctypes.CDLL("libcuda.so.1"))
    return torch.as_tensor(found, device=made)


def whole_pages(windows: Sequence[slice], page: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each run of pages that the windows touch. They are in ascending order."""
    low, high = 0, 0
    for each in windows:
        start, stop = each.start // page * page, -(-each.stop // page) * page
        if start > high:
            yield low, high
            low = start
        high = max(high, stop)
    yield low, high
