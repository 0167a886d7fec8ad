"""Stopping a search: a signal sets a wish, which is obeyed between two batches."""

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
"""Seconds from the wish to stop to the end of the work that still runs: batches, a build, a shrink."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LEAST_LIMIT_S = 2.0
"""The least seconds that a case may take, however short a session is: a first call takes a second on a busy machine."""


def never() -> bool:
    """Return False. It is the default of functions that end a session."""
    return False


def late(over: Callable[[], bool]) -> Watch:
    """Return a watch that, once `over` returns true, gives up calls that have run for GRACE_S seconds."""
    return lambda waits: [wait.target for wait in waits if wait.seconds >= GRACE_S] if over() else ()


class Interruption:
    """A context in which the first SIGINT or SIGTERM only sets `wanted`, and a moment later `overdue`; a second one
    raises KeyboardInterrupt.

    Python raises KeyboardInterrupt at any instruction, and drops it in a callback of the garbage collector or of a weak
    reference, such as Hypothesis has. So a Ctrl-C would sometimes be lost, and would leave batches half done.
    """

    def __init__(self, told: str = "what is running is judged first") -> None:
        self.wanted = False
        self.terminated = False
        """Whether the signal was SIGTERM: its sender waits for the end, and does not want explanations."""
        self._since = math.inf
        self._told = told

    @property
    def overdue(self) -> bool:
        """Whether the work that ran when a stop was wanted has had GRACE_S seconds."""
        return time.monotonic() >= self._since + GRACE_S

    @property
    def left(self) -> float:
        """The seconds until the limit; inf, since this class has none."""
        return math.inf

    @property
    def is_over(self) -> bool:
        """Whether a limit, and no signal, ended the work; False here."""
        return False

    @contextmanager
    def sooner(self, share: float) -> Iterator[None]:
        """Give the work in this block that share of the time that is left: its limit counts as this one's, and is
        forgotten afterwards. This class has no limit."""
        yield

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let the work in this block be done whole. This class cuts nothing off."""
        yield

    def within(self, work: Callable[[], _T], seconds: float | None = None) -> _T | None:
        """Return the result of `work`; None if it is cut off `seconds` after the wish to stop, or not begun because a
        limit is over. This class cuts nothing off."""
        return work()

    def stop(self) -> None:
        """Ask for a stop without a signal, for example because a store is gone."""
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
class SessionLimits:
    """The limits of a session, which ends at the first of them. Without limits it runs until it is interrupted."""

    max_time: float | None = None
    """The seconds after which the session ends."""
    max_cases: int | None = None

    @property
    def longest_case(self) -> float | None:
        """The seconds that a case may take: a quarter of the session's, so that a hanging case is found in time."""
        return None if self.max_time is None else max(_LEAST_LIMIT_S, self.max_time / 4)

    def less(self, seconds: float, cases: int) -> SessionLimits:
        """Return the limits that are left after these numbers of seconds and cases."""
        time_left = None if self.max_time is None else max(self.max_time - seconds, 0.0)
        return SessionLimits(time_left, None if self.max_cases is None else max(self.max_cases - cases, 0))
