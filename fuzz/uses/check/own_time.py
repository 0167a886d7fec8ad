"""The time that this process has had, in which the kernel of a check runs. On a busy machine other processes take most
of what a clock shows: a rule that is found in ten seconds alone is found beside a whole test suite, too."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

MOST_TIMES = 3
"""What waits, for a GPU or in a sleep, uses no processor: no second of this time is more than so many of a clock's."""


@dataclass(frozen=True)
class OwnTime:
    """A clock that begins now. It counts seconds of the processor, as far as a clock does not say fewer: threads that
    run at once use more."""

    _began: float = field(default_factory=time.monotonic)
    _used: float = field(default_factory=time.process_time)

    def __call__(self) -> float:
        """Return the seconds since it began."""
        passed = time.monotonic() - self._began
        return min(passed, max(time.process_time() - self._used, passed / MOST_TIMES))
