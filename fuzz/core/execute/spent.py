"""The processor time that explaining takes. On a busy machine other processes take most of what a clock shows: so
measured, a rule that takes ten seconds on an idle machine is found beside a whole test suite, too."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fuzz.core.transport.taken import workers_time

MOST_TIMES = 10
"""The most seconds of wall clock for one second of processor time: a call that sleeps, or waits for another machine,
uses no processor. Chosen, not measured."""


def processors_time() -> float:
    """Return the seconds of processors that this process and its workers have taken."""
    return time.process_time() + workers_time()


@dataclass(frozen=True)
class Spent:
    """A clock that begins now. It counts processor seconds of this process, of kernels that run in it and of workers,
    but never more than the wall clock, since threads that run at once use more, and at least a MOST_TIMES-th of it."""

    _began: float = field(default_factory=time.monotonic)
    _used: float = field(default_factory=processors_time)

    def __call__(self) -> float:
        """Return the seconds since it began."""
        passed = time.monotonic() - self._began
        return min(passed, max(processors_time() - self._used, passed / MOST_TIMES))
