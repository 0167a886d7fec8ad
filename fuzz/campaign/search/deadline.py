"""A limit of time: work that still runs some seconds later is cut off, except work that must be done whole."""

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
"""Seconds from the wish to stop a night to the end of a case that hangs."""
LAST_S = 4.0
"""Seconds for which workers of other machines are told that the search ends."""
_AGAIN_S = 0.1
_WHOLE = frozenset(("sqlalchemy", "sqlite3", "psycopg", "psycopg_binary"))
"""Packages whose code is never cut off: a database statement that is cut off leaves a connection in an unknown state,
and SQLAlchemy turns any exception in it into an error of its own."""


class OutOfTime(BaseException):
    """The time is over: raised in the code that still runs. It is not an Exception, which that code might catch."""


class Stopping(Interruption):
    """An interruption by time or signals. While it is entered, SIGINT, SIGTERM and the end of the time set `wanted`.
    Some seconds later, OutOfTime is raised in code inside `abortable`, but not inside `shielded` or in a call of a
    database. A further signal raises it at once.

    A batch that is cut off was not saved: the state is as if the batch had not been sent.
    """

    def __init__(self, limit_s: float, *, notes_at: float | None = None) -> None:
        """`wanted` is set `notes_at` seconds after the limit, by default GRACE_S."""
        super().__init__()
        self._notes_at = GRACE_S if notes_at is None else notes_at
        self._until = time.monotonic() + limit_s
        """The time of the limit, or of an earlier signal."""
        self._whole = -math.inf
        """Inside `sooner`, the time of the whole limit."""
        self._began = -math.inf
        """The time at which the running work began."""
        self.allowed: float | None = None
        """The seconds after the wish to stop, or after the work began, at which it is cut off; None if it may not
        be."""
        self._at_once = False
        """Whether a further signal came for the running work."""
        self.signalled = False
        self.ending = "limit"
        """How the night ends: 'limit', 'signal', or 'error', after which it can be resumed."""

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
        """Whether a hanging case should be given up now: early enough that the others are judged and saved in time."""
        return time.monotonic() >= self._until + _HUNG_S

    @property
    def left(self) -> float:
        """Seconds until the limit; 0 once a stop is wanted."""
        return 0.0 if self.wanted else max(0.0, self._until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.wanted and not self.signalled

    def abortable(self, seconds: float | None = None) -> AbstractContextManager[None]:
        """Return a context in which work may be cut off `seconds` after the wish to stop, or after now if that is
        later, by default GRACE_S; with inf only a further signal cuts it off. The context ends quietly then, and
        `wanted` is set."""
        return _Abortable(self, GRACE_S if seconds is None else seconds)

    def within(self, work: Callable[[], _T], seconds: float | None = None) -> _T | None:
        found: _T | None = None
        if self.left:
            with self.abortable(seconds):
                found = work()
        return found

    @contextmanager
    def sooner(self, share: float) -> Iterator[None]:
        self._whole, self._until, before = self._until, time.monotonic() + self.left * share, self.allowed
        if before is not None:  # what surrounds this block is cut off at the whole limit, also while a pool is closed
            self.allowed = before + self._whole - self._until
        self._arm(self.left + self._notes_at)
        try:
            yield
        finally:
            whole, self._whole, self.allowed = self._whole, -math.inf, before
            if self.ending == "limit":
                self._until = whole
                self.wanted = time.monotonic() >= whole
                self._arm(self.left + self._notes_at)

    def allow(self, seconds: float | None) -> None:
        """Let work from now on be cut off `seconds` after the wish to stop, or after now; with None it may not be."""
        self.allowed, self._at_once, self._began = seconds, False, time.monotonic()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let the work in this block, inside `abortable`, be done whole."""
        before, self.allowed = self.allowed, None
        try:
            yield
        finally:
            self.allowed = before

    def _arm(self, seconds: float) -> None:
        # The timer repeats, as Python drops an exception that is raised in a callback of the garbage collector.
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
        """Print nothing about an OutOfTime that Python dropped: the timer raises the next one soon."""
        if not isinstance(unraisable.exc_value, OutOfTime):
            self._unraisable(unraisable)

    def _overdue(self, number: int, frame: FrameType | None) -> None:
        self.wanted = self.wanted or time.monotonic() >= self._until  # not for an alarm of a sooner limit
        if self.allowed is None or _is_whole(frame) or (time.monotonic() < self._whole and _is_importing(frame)):
            return
        if self._at_once or time.monotonic() >= max(self._until, self._began) + self.allowed:
            raise OutOfTime


class _Abortable:
    """The context that `abortable` returns. It is a class, since a signal may come at any instruction, even the first
    of a function: `contextlib`'s generators would let OutOfTime out, which would then end the code that cleans up."""

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
    """Whether `frame`, or a caller of it, is code of a database; not if `abortable` is entered or left in between."""
    while frame is not None and frame.f_code not in _BORDER:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _WHOLE:
            return True
        frame = frame.f_back
    return frame is not None


def _is_importing(frame: FrameType | None) -> bool:
    """Whether `frame` runs because of an import. If it is cut off, a library such as torch stays half imported, which
    what comes after a sooner limit cannot use."""
    while frame is not None and frame.f_code not in _BORDER:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
