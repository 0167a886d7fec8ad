"""The time of processors that workers take: no clock of this process shows it while they live."""

from __future__ import annotations

import time

_PROCESS = 2
"""CPUCLOCK_SCHED of <linux/posix-timers.h>: the clock of all threads of a process."""
_all_s = [0.0]


def workers_time() -> float:
    """Return the seconds of processors that this process's workers have taken since it began."""
    return _all_s[0]


class Taken:
    """What one worker has taken. A case that hangs has taken what was waited for it: one that sleeps takes nothing of a
    processor, and must not be tried for ever."""

    def __init__(self) -> None:
        self._pid, self._seen = 0, 0.0
        self._seconds = self._before = 0.0

    def begin(self) -> None:
        """Cases begin."""
        self._before = self._seconds

    def look(self, pid: int) -> None:
        """Add what the process, which lives, has taken since the last look."""
        try:
            now = time.clock_gettime((~pid << 3) | _PROCESS)
        except OSError:  # it has just ended, or runs on another machine
            return
        if pid != self._pid:
            self._pid, self._seen = pid, 0.0
        self._add(now - self._seen)
        self._seen = now

    def hung(self, waited: float) -> None:
        """One of the cases took so many seconds, and was waited for no longer."""
        self._add(max(0.0, waited - (self._seconds - self._before)))

    def _add(self, seconds: float) -> None:
        self._seconds += seconds
        _all_s[0] += seconds
