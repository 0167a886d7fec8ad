"""A deadline of what is calculated in mpmath: one element of a long sum may take minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager


class LateError(Exception):
    """The deadline has passed."""


_until = math.inf


@contextmanager
def deadline(until: float) -> Iterator[None]:
    """Raise LateError from what is calculated inside at that time, on the clock of time.process_time, or after it."""
    global _until
    before, _until = _until, until
    try:
        yield
    finally:
        _until = before


def look_at_the_clock() -> None:
    """Raise LateError where the deadline has passed. Between two calls lies one call of mpmath, or of NumPy."""
    if _until < math.inf and time.process_time() >= _until:
        raise LateError
