"""The journal: memory that a compiled worker shares with us, and that outlives it."""

from __future__ import annotations

import mmap
import os
import struct

_HEAD = struct.Struct("<IIQ")
"""Cases of the frame that were begun, those that were done, and the bytes of the answers that follow. `native/frames.c`
has the same in C."""
_BYTES = 256 << 10
"""A worker sends its answers when the next one has no room here: some 60 of small cases."""


class Journal:
    """How far a worker is in its frame, and what it has answered and not yet sent.

    It sends answers many at a time. Of one that dies or hangs this tells which case it was running, and the answers
    before.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("kernelfuzz-journal")
        """For the worker; to be closed once it has started."""
        os.ftruncate(self.descriptor, _BYTES)
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
        """Those that it has not sent."""
        size = _HEAD.unpack_from(self._memory)[2]
        return self._memory[_HEAD.size : _HEAD.size + size]

    def clear(self) -> None:
        """Begin a frame, before it is sent. A worker that died may have left something."""
        _HEAD.pack_into(self._memory, 0, 0, 0, 0)
