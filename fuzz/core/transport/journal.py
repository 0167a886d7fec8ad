"""The journal: memory that a worker shares with the engine, and that outlives the worker."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable

_HEAD = struct.Struct("<IIQ")
"""The numbers of cases of the frame that were begun and done, and the number of bytes of answers that follow.
`native/frames.c` has the same header in C, and does the same as `Writer`."""
_COUNT, _SIZE = struct.Struct("<I"), struct.Struct("<Q")
_BEGUN, _DONE, _FILLED = 0, 4, 8
"""The offsets of the three numbers in the header."""
_BYTES = 256 << 10
"""The size of the journal in bytes. A worker sends its answers when the next has no room, after some 60 small cases."""


class Journal:
    """The engine's side of the journal: the worker's progress in its frame, and the answers that it has not sent yet.
    If the worker dies or hangs, the journal shows which case it was running, and has the answers before."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("kernelfuzz-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        """The descriptor for the worker. It is closed once the worker has started."""
        os.ftruncate(self.descriptor, _BYTES)
        # If a worker could make the memory shorter, reading beyond its end would kill the engine.
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(self.descriptor, _BYTES)

    @property
    def begun(self) -> int:
        """The number of cases of the frame that the worker has begun."""
        return int(_HEAD.unpack_from(self._memory)[0])

    @property
    def runs(self) -> bool:
        """Whether the worker is running a case, rather than waiting for its first one or sending answers."""
        begun, done, _ = _HEAD.unpack_from(self._memory)
        return bool(begun != done)

    @property
    def answers(self) -> bytes:
        """The answers that the worker has not sent."""
        size = _HEAD.unpack_from(self._memory)[2]
        return self._memory[_HEAD.size : _HEAD.size + size]

    def clear(self) -> None:
        """Start a new frame; call this before the frame is sent. A worker that died may have left something here."""
        _HEAD.pack_into(self._memory, 0, 0, 0, 0)


class Writer:
    """The worker's side of the journal. It writes no more after its last answer, as the next frame may have begun."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 0)
        self._size = 0
        os.close(descriptor)

    def begin(self, count: int) -> None:
        """Record that `count` cases of the frame are begun."""
        _COUNT.pack_into(self._memory, _BEGUN, count)

    def add(self, answer: bytes, done: int) -> bool:
        """Add an answer, after which `done` cases are done. If it has no room, return False and change nothing."""
        start, end = _HEAD.size + self._size, _HEAD.size + self._size + len(answer)
        if end > len(self._memory):
            return False
        self._memory[start:end] = answer
        self._size += len(answer)
        _SIZE.pack_into(self._memory, _FILLED, self._size)
        _COUNT.pack_into(self._memory, _DONE, done)
        return True

    def send(self, write: Callable[[bytes], None], done: int, answer: bytes = b"") -> None:
        """Send the answers in the journal, and then `answer`, which had no room. After this `done` cases are done."""
        _COUNT.pack_into(self._memory, _DONE, done)
        write(self._memory[_HEAD.size : _HEAD.size + self._size] + answer)
        self._size = 0
        _SIZE.pack_into(self._memory, _FILLED, 0)
