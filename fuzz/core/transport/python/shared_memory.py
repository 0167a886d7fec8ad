"""Uninitialised shared memory of a GPU: all of it is filled before a call of a kernel."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from fuzz.core.base.case import Case
from fuzz.core.base.fill import fill_of, word_of
from fuzz.core.transport.python.launch import CubinFunction, LaunchError

_THREADS = 1024
"""The number of threads for which the program in `shared.ptx` is written."""


def fill_shared_memory(case: Case) -> None:
    """Queue, before a call, a program that fills the shared memory of each multiprocessor with the fill of the case. Do
    nothing without NVIDIA's bindings, or if the device is lost, which is reported later."""
    filler = _filler()
    if filler is not None:
        filler(word_of(fill_of(case), "shared") * 0x10001)


class _Filler:
    def __init__(self, multiprocessors: int, room: int) -> None:
        self._program = CubinFunction(
            str(Path(__file__).with_name("shared.ptx")), "kf_fill_shared", "shared.ptx", ["i4", "i4"]
        )
        # A block takes all shared memory that a multiprocessor gives to one block, so each multiprocessor runs one at a
        # time, and some run two in turn.
        self._blocks, self._room = 2 * multiprocessors, room
        self._ended = False

    def __call__(self, word: int) -> None:
        if self._ended:
            return
        try:
            self._program((self._blocks,), (_THREADS,), self._room, word, self._room)
        except LaunchError:
            self._ended = True


@lru_cache(maxsize=1)
def _filler() -> _Filler | None:
    """Return the program that fills the device of this process, or None without NVIDIA's bindings or a device."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return None
    names: Any = driver.CUdevice_attribute
    asked = (
        names.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, names.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    )  # fmt: skip
    found = [driver.cuDeviceGetAttribute(each, 0) for each in asked]
    if any(int(error) != 0 for error, *_ in found):
        return None
    (_, multiprocessors), (_, room) = found
    return _Filler(int(multiprocessors), int(room))
