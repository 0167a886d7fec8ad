"""The schedule of workers that share the processors: what was submitted first is done first."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

Priority = tuple[float, ...]
"""The smallest priority goes first."""


class Schedule:
    """A semaphore of `slots` threads that hands a slot to the waiting thread that goes first.

    With a plain semaphore the thread that has just released a slot takes it again before those that wait are awake, so
    that one worker is done with all batches before another has begun with the first.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[tuple[Priority, int, threading.Lock]] = []

    @contextmanager
    def slot(self, priority: Priority) -> Iterator[None]:
        """Wait for a slot, and hold it meanwhile."""
        self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    def _acquire(self, priority: Priority) -> None:
        with self._lock:
            if self._free > 0:  # then no thread waits
                self._free -= 1
                return
            called = threading.Lock()
            called.acquire()
            heapq.heappush(self._waiting, (priority, next(self._numbers), called))
        called.acquire()

    def _release(self) -> None:
        """Hand the slot to the thread that goes first: it is never free while one waits."""
        with self._lock:
            if self._waiting:
                _, _, called = heapq.heappop(self._waiting)
                called.release()
            else:
                self._free += 1
