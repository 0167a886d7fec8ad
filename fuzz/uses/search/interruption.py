"""Ctrl-C and SIGTERM as a wish to stop, obeyed between two batches."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType


class Interruption:
    """While entered, the first SIGINT or SIGTERM only sets `wanted`; a second one raises KeyboardInterrupt.

    Python raises KeyboardInterrupt wherever it happens to be, and drops it where that is a garbage collector's or a
    weak reference's callback, as Hypothesis has: a Ctrl-C would sometimes be lost, and never leave a batch whole.
    """

    def __init__(self, told: str = "what is running is judged first") -> None:
        self.wanted = False
        self._told = told

    def __enter__(self) -> Interruption:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        # os.write: a signal handler may interrupt a print, and must not enter another one.
        os.write(2, f"\nstopping: {self._told}; Ctrl-C once more stops at once\n".encode())
