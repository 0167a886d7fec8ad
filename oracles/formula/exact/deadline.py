"""A deadline for calculations in mpmath, since one element of a long sum may take minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TELL_S = 1.0


class LateError(Exception):
    """The deadline has passed."""


class _Limit:
    """A limit of processor time, which is checked between calls of mpmath."""

    def __init__(self, until: float, tell: Callable[[], None]) -> None:
        self._until, self._tell = until, tell
        self._told = time.process_time() if until < math.inf else 0.0

    def look(self) -> None:
        """Raise LateError if the deadline has passed."""
        if self._until == math.inf:
            return
        now = time.process_time()
        if now >= self._until:
            raise LateError
        if now >= self._told + _TELL_S:
            self._told = now
            self._tell()


_clock = _Limit(math.inf, lambda: None)


@contextmanager
def deadline(until: float, tell: Callable[[], None]) -> Iterator[None]:
    """Raise LateError inside the block once `time.process_time()`, in seconds, reaches `until`. Until then `tell` is
    called about once a second."""
    global _clock
    before, _clock = _clock, _Limit(until, tell)
    try:
        yield
    finally:
        _clock = before


def look_at_the_clock() -> None:
    """Raise LateError if the deadline has passed. Each call of mpmath or NumPy comes after a call of this function."""
    _clock.look()
