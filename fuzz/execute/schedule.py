"""Who works next: workers share the processors, and what was sent first is done first."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

Place = tuple[float, ...]
"""what decides whose turn it is: the smallest goes first."""


class Turns:
    """Lets `slots` threads work at a time.

    A semaphore would do but for the order: who has just had a turn takes the next one before those who wait are awake,
    so that one worker is done with all batches before another has begun with the first.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[tuple[Place, int, threading.Lock]] = []

    @contextmanager
    def turn(self, place: Place) -> Iterator[None]:
        """Wait until a slot is free and nobody with a smaller place waits for it; hold the slot meanwhile."""
        self._acquire(place)
        try:
            yield
        finally:
            self._release()

    def _acquire(self, place: Place) -> None:
        with self._lock:
            if self._free > 0:  # then nobody waits
                self._free -= 1
                return
            called = threading.Lock()
            called.acquire()
            heapq.heappush(self._waiting, (place, next(self._numbers), called))
        called.acquire()

    def _release(self) -> None:
        """Hand the slot to whose turn it is: it is never free while somebody waits."""
        with self._lock:
            if self._waiting:
                _, _, called = heapq.heappop(self._waiting)
                called.release()
            else:
                self._free += 1
