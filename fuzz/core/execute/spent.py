"""The processor time that explaining takes. On a busy machine other processes take most of the wall clock's time.
Measured in processor time, a rule that takes ten seconds on an idle machine is also found beside a whole test suite."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fuzz.core.transport.taken import workers_time

MOST_TIMES = 10
"""The largest number of wall clock seconds that count as one second of processor time, since a call that sleeps, or
waits for another machine, uses no processor. Chosen, not measured."""


def processors_time() -> float:
    """Return the processor seconds that this process and its workers have used."""
    return time.process_time() + workers_time()


@dataclass(frozen=True)
class Spent:
    """A clock that starts now. It counts processor seconds of this process, of kernels that run in it, and of workers.
    It never runs faster than the wall clock, although threads use more, and never slower than a MOST_TIMES-th of it."""

    _began: float = field(default_factory=time.monotonic)
    _used: float = field(default_factory=processors_time)

    def __call__(self) -> float:
        """Return the seconds since the clock started."""
        passed = time.monotonic() - self._began
        return min(passed, max(processors_time() - self._used, passed / MOST_TIMES))
