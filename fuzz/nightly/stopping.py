"""When a night stops: at its limit or on a signal, first as a wish, and a little later whatever is running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from fuzz.run.interruption import Interruption

GRACE_S = 2.0
"""seconds between the wish to stop and the end of what is still running: batches, a build, a shrink."""
_AGAIN_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class OutOfTime(BaseException):
    """Raised in what was still running when the grace was over. Not an Exception, which others would catch."""


class Stopping(Interruption):
    """While entered, SIGINT, SIGTERM and the passing of the limit set `wanted`; GRACE_S later, OutOfTime is raised in
    whatever runs inside `abortable`, and not inside `shielded`.

    A batch that is abandoned so was not saved: the state is as if it had not been sent.
    """

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self._until = time.monotonic() + limit_s
        self._abortable = False
        self.signalled = False

    def __enter__(self) -> Stopping:
        self._handlers = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        self._handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._overdue)
        self._arm(self.left)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def left(self) -> float:
        """Seconds until the limit; 0 once a stop is wanted."""
        return 0.0 if self.wanted else max(0.0, self._until - time.monotonic())

    @contextmanager
    def abortable(self) -> Iterator[None]:
        """Inside, what runs may be cut off. Ends quietly when it is; `wanted` is set then."""
        self._abortable = True
        try:
            try:
                yield
            finally:
                self._abortable = False
        except OutOfTime:  # also one that came in the line above
            self.wanted = True

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Inside `abortable`: something that must be done whole."""
        before, self._abortable = self._abortable, False
        try:
            yield
        finally:
            self._abortable = before

    def _arm(self, seconds: float) -> None:
        # Repeated: an exception that lands in a garbage collector's callback is dropped.
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001) + GRACE_S, _AGAIN_S)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if not self.signalled:
            os.write(2, b"\nstopping: what is running is judged first, then everything is saved\n")
            self._arm(0.0)
        self.wanted = self.signalled = True

    def _overdue(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True
        if self._abortable:
            raise OutOfTime
