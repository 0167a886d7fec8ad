"""The journal: memory that a worker shares with the engine, and that outlives the worker."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable

_HEAD = struct.Struct("<IIQ")
"""How many cases of the frame were begun and done, and the bytes of the answers that follow. `native/frames.c` has the
same in C, with what `Writer` does."""
_COUNT, _SIZE = struct.Struct("<I"), struct.Struct("<Q")
_BEGUN, _DONE, _FILLED = 0, 4, 8
"""The offset of each of them."""
_BYTES = 256 << 10
"""The size of the journal: a worker sends its answers when the next one has no room here, after some 60 small cases."""


class Journal:
    """How far a worker is in its frame, and its answers that are not sent yet, since it sends many at a time. If it
    dies or hangs, the journal tells which case it was running, and has the answers before."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("kernelfuzz-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        """For the worker; closed once it has started."""
        os.ftruncate(self.descriptor, _BYTES)
        # A process that reads beyond the end of memory that a worker made shorter would be killed.
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(self.descriptor, _BYTES)

    @property
    def begun(self) -> int:
        """The number of cases in its frame that it has begun."""
        return int(_HEAD.unpack_from(self._memory)[0])

    @property
    def runs(self) -> bool:
        """Whether it is at a case, and not before its first one, or sending answers."""
        begun, done, _ = _HEAD.unpack_from(self._memory)
        return bool(begun != done)

    @property
    def answers(self) -> bytes:
        """The answers that it has not sent."""
        size = _HEAD.unpack_from(self._memory)[2]
        return self._memory[_HEAD.size : _HEAD.size + size]

    def clear(self) -> None:
        """Begin a frame, before it is sent. A worker that died may have left something."""
        _HEAD.pack_into(self._memory, 0, 0, 0, 0)


class Writer:
    """The worker's side. After its last answer it writes nothing more: the engine may have begun the next frame."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 0)
        self._size = 0
        os.close(descriptor)

    def begin(self, count: int) -> None:
        """Note that `count` cases of the frame are begun now."""
        _COUNT.pack_into(self._memory, _BEGUN, count)

    def add(self, answer: bytes, done: int) -> bool:
        """Add the answer after which `done` cases are done. Return False, and change nothing, if there is no room."""
        start, end = _HEAD.size + self._size, _HEAD.size + self._size + len(answer)
        if end > len(self._memory):
            return False
        self._memory[start:end] = answer
        self._size += len(answer)
        _SIZE.pack_into(self._memory, _FILLED, self._size)
        _COUNT.pack_into(self._memory, _DONE, done)
        return True

    def send(self, write: Callable[[bytes], None], done: int, answer: bytes = b"") -> None:
        """Send the answers that are here, and then the one that had no room, after which `done` cases are done."""
        _COUNT.pack_into(self._memory, _DONE, done)
        write(self._memory[_HEAD.size : _HEAD.size + self._size] + answer)
        self._size = 0
        _SIZE.pack_into(self._memory, _FILLED, 0)
