"""The time of workers: the processor time that they use, which no clock of this process shows while they live, and the
time for which they got no processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
    """Return whether a thread of the process is running, or waiting for a processor, a disk or memory. In proc(5), the
    state follows the name, which may hold anything."""
    try:
        states = [each.read_bytes().rpartition(b")")[2].strip() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return any(state.startswith((b"R", b"D")) for state in states)


def _children(pid: int) -> Sequence[int]:
    """Return the processes that a process has started, and those that these have started."""
    found = list[int]()
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, tasks.read_text().split())
    return [*found, *(each for child in found for each in _children(child))]


class Taken:
    """The time of one worker. Its clock stands still while the worker is ready to run but gets no processor. On a busy
    machine this is most of the time, and no kernel is to blame. While the worker sleeps, the clock goes on, unless it
    waits for processes of its own, such as a compiler, that get no processor."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, used: Callable[[int], float | None] = _used,
        runnable: Callable[[int], bool] = _runnable, children: Callable[[int], Sequence[int]] = _children,
    ) -> None:  # fmt: skip
        self._now, self._used, self._runnable, self._children = now, used, runnable, children
        self._pid, self._seen = 0, 0.0
        self._of_children = dict[int, float]()
        """The processor seconds that each process started by the worker had used at the last check."""
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
        if took is None or took >= passed:
            return
        if not self._runnable(pid):
            children = self._children(pid)
            if not any(map(self._runnable, children)):
                return
            took += self._take_children(children)
        self._starved += min(max(passed - took, 0.0), passed * (1 - 1 / _SLOWEST))

    def heard(self, pid: int, wait: float) -> None:
        """Note that the process has been waiting for this one, which did something else or got no processor for all but
        `wait` seconds since the last check."""
        self._take(pid)
        now = self._now()
        self._starved += max(now - self._looked - wait, 0.0)
        self._looked = now

    def _take_children(self, children: Sequence[int]) -> float:
        """Return the processor seconds that these have used since the last check; new ones, since they began."""
        before, self._of_children = self._of_children, {each: self._used(each) or 0.0 for each in children}
        return sum(max(used - before.get(each, 0.0), 0.0) for each, used in self._of_children.items())

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
