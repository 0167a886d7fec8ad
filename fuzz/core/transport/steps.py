"""Talk with a worker in steps, so that one thread can talk with many workers. The steps pause whenever they have to
wait, and their caller decides how to wait."""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class Pause:
    """A request to wait until a pipe can be read or written, until its other end is closed, or until a time."""

    descriptor: int
    events: int
    """The events, as in select.poll."""
    until: float
    """The time on the clock of time.monotonic."""


Steps = Generator[Pause, bool, _T]
"""A generator that yields pauses. After each it is sent True if the pipe is ready, or False if the time came first."""


def taken(steps: Steps[_T]) -> _T:
    """Take all the steps, one after the other, and return their result."""
    try:
        pause = next(steps)
        while True:
            poll = select.poll()
            poll.register(pause.descriptor, pause.events)
            pause = steps.send(bool(poll.poll(max(0.0, pause.until - time.monotonic()) * 1000)))
    except StopIteration as end:
        result: _T = end.value
        return result
