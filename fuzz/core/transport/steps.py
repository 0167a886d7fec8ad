"""Talk with a worker in steps, so that one thread talks with many: whenever there is something to wait for, the steps
pause, and whoever takes them decides how to wait."""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class Pause:
    """Waits until a pipe can be read or written, or was closed at its other end, or until a time."""

    descriptor: int
    events: int
    """As in select.poll."""
    until: float
    """On the clock of time.monotonic."""


Steps = Generator[Pause, bool, _T]
"""They are sent whether the pipe is ready; False where the time has come first."""


def taken(steps: Steps[_T]) -> _T:
    """Take all the steps, one after the other."""
    try:
        pause = next(steps)
        while True:
            poll = select.poll()
            poll.register(pause.descriptor, pause.events)
            pause = steps.send(bool(poll.poll(max(0.0, pause.until - time.monotonic()) * 1000)))
    except StopIteration as end:
        result: _T = end.value
        return result
