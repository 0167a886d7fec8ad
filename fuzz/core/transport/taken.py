"""The time of workers: the processor time that they use, which no clock of this process shows while they live, and the
time for which they got no processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_PROCESS = 2
"""CPUCLOCK_SCHED of <linux/posix-timers.h>: the clock of all threads of a process."""
_SLOWEST = 64
"""The largest factor by which a worker's clock may be slower than the wall clock, as in the timer of C workers. A
kernel that lowers its own priority on a busy machine must end, too."""
_all_s = [0.0]


def workers_time() -> float:
    """Return the processor seconds that this process's workers have used since it began."""
    return _all_s[0]


def _used(pid: int) -> float | None:
    """Return the processor seconds that a process has used, or None if it has ended or runs on another machine."""
    try:
        return time.clock_gettime((~pid << 3) | _PROCESS)
    except OSError:
        return None


def _runnable(pid: int) -> bool:
    """Return whether a thread of the process is running or waiting for a processor. In proc(5), the state follows the
    name, which may hold anything."""
    try:
        states = [each.read_bytes().rpartition(b")")[2].strip() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return any(state.startswith(b"R") for state in states)


class Taken:
    """The time of one worker. Its clock stands still while the worker is ready to run but gets no processor. On a busy
    machine this is most of the time, and no kernel is to blame. While the worker sleeps, the clock goes on."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, used: Callable[[int], float | None] = _used,
        runnable: Callable[[int], bool] = _runnable,
    ) -> None:  # fmt: skip
        self._now, self._used, self._runnable = now, used, runnable
        self._pid, self._seen = 0, 0.0
        self._seconds = self._before = self._starved = 0.0
        self._looked = now()

    @property
    def clock(self) -> float:
        """The time in seconds, less the time without a processor, as of the last call of `look`."""
        return self._now() - self._starved

    def begin(self, pid: int) -> None:
        """Note that cases begin, for which the process has been waiting."""
        self._take(pid)
        self._before, self._looked = self._seconds, self._now()

    def look(self, pid: int) -> None:
        """Check the process, which was at work since the last check. Call this several times a second."""
        took, now = self._take(pid), self._now()
        passed, self._looked = now - self._looked, now
        if took is not None and took < passed and self._runnable(pid):
            self._starved += min(passed - took, passed * (1 - 1 / _SLOWEST))

    def hung(self, waited: float) -> None:
        """Add the time that was waited in vain for a case. A sleeping case uses no processor, but must end too."""
        self._add(max(0.0, waited - (self._seconds - self._before)))

    def _take(self, pid: int) -> float | None:
        """Add the processor seconds that the process has used since the last check. Return them; None if unknown."""
        used = self._used(pid)
        if used is None:
            return None
        took = used - self._seen if pid == self._pid else used
        self._pid, self._seen = pid, used
        self._add(took)
        return took

    def _add(self, seconds: float) -> None:
        self._seconds += seconds
        _all_s[0] += seconds
