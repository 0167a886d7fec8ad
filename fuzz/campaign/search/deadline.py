"""A limit of time: what still runs a little after it is cut off, but never where it must be done whole."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, TracebackType
from typing import TypeVar

from fuzz.campaign.search.stopping import GRACE_S, SIGNALS, Interruption

_T = TypeVar("_T")

_HUNG_S = 0.25
"""This many seconds lie between the wish to stop a night and the end of a case that hangs."""
LAST_S = 4.0
"""Workers of other machines are told of the end for this many seconds."""
_AGAIN_S = 0.1
_WHOLE = frozenset(("sqlalchemy", "sqlite3", "psycopg", "psycopg_binary"))
"""What runs inside these packages is never cut off: a statement that ends halfway leaves a connection of which nobody
knows the state, and SQLAlchemy makes an error of its own of whatever is raised there."""


class OutOfTime(BaseException):
    """Raised in what was still running when its time was over. Not an Exception, which others would catch."""


class Stopping(Interruption):
    """While entered, SIGINT, SIGTERM and the passing of the limit set `wanted`; some seconds later, OutOfTime is raised
    in whatever runs inside `abortable`, and not inside `shielded` or a call of a database. A further signal raises it
    at once.

    A batch that is abandoned so was not saved: the state is as if it had not been sent.
    """

    def __init__(self, limit_s: float, *, notes_at: float | None = None) -> None:
        """`wanted` is set so many seconds after the limit, by default GRACE_S."""
        super().__init__()
        self._notes_at = GRACE_S if notes_at is None else notes_at
        self._until = time.monotonic() + limit_s
        """The time of the limit, or of a signal that came before it."""
        self._began = -math.inf
        """The time when what is running was begun."""
        self.allowed: float | None = None
        """The seconds after both for what is running; None where it may not be cut off."""
        self._at_once = False
        """True once a further signal came for what is running."""
        self.signalled = False
        self.ending = "limit"
        """How the night ends: 'limit', 'signal', or 'error', after which it can go on."""

    def stop(self) -> None:
        self._until, self.wanted, self.ending = min(self._until, time.monotonic()), True, "error"

    def __enter__(self) -> Stopping:
        self._handlers = {number: signal.signal(number, self._signalled) for number in SIGNALS}
        self._handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._overdue)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._dropped
        self._arm(self.left + self._notes_at)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._unraisable

    @property
    def overdue(self) -> bool:
        """True early enough that what a hang holds up, and did run, is judged and saved before OutOfTime comes."""
        return time.monotonic() >= self._until + _HUNG_S

    @property
    def left(self) -> float:
        """Seconds until the limit; 0 once a stop is wanted."""
        return 0.0 if self.wanted else max(0.0, self._until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.wanted and not self.signalled

    def abortable(self, seconds: float | None = None) -> AbstractContextManager[None]:
        """Inside, what runs may be cut off so many seconds after the wish to stop, or after now where that is later,
        by default GRACE_S; with inf by a further signal alone. Ends quietly when it is; `wanted` is set then."""
        return _Abortable(self, GRACE_S if seconds is None else seconds)

    def within(self, work: Callable[[], _T], seconds: float | None = None) -> _T | None:
        found: _T | None = None
        if self.left:
            with self.abortable(seconds):
                found = work()
        return found

    def allow(self, seconds: float | None) -> None:
        """What runs from now on may be cut off so many seconds after the wish to stop, or after now; with None it may
        not."""
        self.allowed, self._at_once, self._began = seconds, False, time.monotonic()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Inside `abortable`: something that must be done whole."""
        before, self.allowed = self.allowed, None
        try:
            yield
        finally:
            self.allowed = before

    def _arm(self, seconds: float) -> None:
        # Repeated: an exception that lands in a garbage collector's callback is dropped.
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), _AGAIN_S)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            self._at_once = True
            self._arm(0.0)
        else:
            os.write(2, b"\nstopping: what is running is judged first, then everything is saved; "
                        b"Ctrl-C once more drops what is running\n")  # fmt: skip
            self._until = min(self._until, time.monotonic())
            self._arm(GRACE_S)
            self.ending = "signal"
        self.wanted = self.signalled = True

    def _dropped(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Says nothing of an OutOfTime that was dropped: the next one comes soon."""
        if not isinstance(unraisable.exc_value, OutOfTime):
            self._unraisable(unraisable)

    def _overdue(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True
        if self.allowed is None or _is_whole(frame):
            return
        if self._at_once or time.monotonic() >= max(self._until, self._began) + self.allowed:
            raise OutOfTime


class _Abortable:
    """What `abortable` returns. A class, since a signal can come at any instruction of a function, its first one too:
    those of `contextlib` around a generator would let OutOfTime out, and it would then end whatever cleans up."""

    def __init__(self, stopping: Stopping, seconds: float) -> None:
        self._stopping = stopping
        self._seconds, self._before = seconds, stopping.allowed

    def __enter__(self) -> None:
        self._stopping.allow(self._seconds)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> bool:
        self._stopping.allow(self._before)
        return isinstance(error, OutOfTime)


_BORDER = {_Abortable.__enter__.__code__, _Abortable.__exit__.__code__}


def _is_whole(frame: FrameType | None) -> bool:
    """True where a database is asked, or `abortable` is just entered or left, in `frame` or in what called it, such as
    another handler."""
    while frame is not None and frame.f_code not in _BORDER:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _WHOLE:
            return True
        frame = frame.f_back
    return frame is not None
