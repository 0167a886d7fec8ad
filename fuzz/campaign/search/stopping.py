"""When a search stops: a signal is a wish, obeyed between two batches."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TypeVar

from fuzz.core.execute.batch import Watch
from fuzz.report import events

_T = TypeVar("_T")

GRACE_S = 1.5
"""This many seconds lie between the wish to stop and the end of what is still running: batches, a build, a shrink."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LEAST_LIMIT_S = 2.0
"""A case may take so many seconds, however short a run is: a first call takes most of one on a busy machine."""


def never() -> bool:
    """Return False: nothing ends it."""
    return False


def late(over: Callable[[], bool]) -> Watch:
    """Once it is over, whatever has been at one case for a while is waited for no longer."""
    return lambda waits: [wait.target for wait in waits if wait.seconds >= GRACE_S] if over() else ()


class Interruption:
    """While entered, the first SIGINT or SIGTERM only sets `wanted`, and a moment later `overdue`; a second one raises
    KeyboardInterrupt.

    Python raises KeyboardInterrupt wherever it happens to be, and drops it where that is a garbage collector's or a
    weak reference's callback, as Hypothesis has: a Ctrl-C would sometimes be lost, and never leave a batch whole.
    """

    def __init__(self, told: str = "what is running is judged first") -> None:
        self.wanted = False
        self.terminated = False
        """True where the signal was SIGTERM: whoever sent it waits for the end, and not for explanations."""
        self._since = math.inf
        self._told = told

    @property
    def overdue(self) -> bool:
        """True once what was running when a stop was wanted has had its time."""
        return time.monotonic() >= self._since + GRACE_S

    @property
    def left(self) -> float:
        """Seconds until a limit. This one has none."""
        return math.inf

    @property
    def is_over(self) -> bool:
        """Whether a limit, and no signal, has ended it."""
        return False

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Inside, something is done whole. This one cuts nothing off."""
        yield

    def within(self, work: Callable[[], _T], seconds: float | None = None) -> _T | None:
        """Return what some work returns; None where it is cut off, so many seconds after the wish to stop, or not begun
        as a limit is over. This one cuts nothing off."""
        return work()

    def stop(self) -> None:
        """Want a stop without a signal: what is needed for more is gone."""
        self.wanted, self._since = True, time.monotonic()

    def __enter__(self) -> Interruption:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted, self.terminated, self._since = True, number == signal.SIGTERM, time.monotonic()
        # os.write: a signal handler may interrupt a print, and must not enter another one.
        said = f"stopping: {self._told}; Ctrl-C once more stops at once"
        if events.wanted():
            events.write(events.Noted(said))
        else:
            os.write(2, f"\n{said}\n".encode())


@dataclass(frozen=True)
class RunLimits:
    """When a run ends; whichever comes first. With neither set it runs until it is interrupted."""

    max_time: float | None = None
    """The run ends after this many seconds."""
    max_cases: int | None = None

    @property
    def longest_case(self) -> float | None:
        """Return the seconds that a case may take: a quarter of the time, so that one that hangs is a finding by its
        end."""
        return None if self.max_time is None else max(_LEAST_LIMIT_S, self.max_time / 4)

    def less(self, seconds: float, cases: int) -> RunLimits:
        """What is left of them once so much is used up."""
        time_left = None if self.max_time is None else max(self.max_time - seconds, 0.0)
        return RunLimits(time_left, None if self.max_cases is None else max(self.max_cases - cases, 0))
