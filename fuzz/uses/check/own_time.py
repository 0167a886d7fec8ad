"""The time that this process has had, in which the kernel of a check runs. On a busy machine other processes take most
of what a clock shows: a rule that is found in ten seconds alone is found beside a whole test suite, too."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from fuzz.uses.check.plan import GIVEN, running_test
from fuzz.uses.check.results import CheckError

_VARIABLE = "KERNELFUZZ_EXPLAIN_S"
OPTION = "--kernelfuzz-explain-time"
"""What gives more time on the command line of tests."""
MOST_TIMES = 3
"""What waits, for a GPU or in a sleep, uses no processor: no second of this time is more than so many of a clock's."""


def explaining() -> tuple[float, str]:
    """Return the seconds for explaining what a check finds, and what to type for more: a program of its own has no
    options, but an environment."""
    text = os.environ.get(_VARIABLE)
    if running_test() or text is None:
        return GIVEN.options.explain_s, OPTION if running_test() else f"{_VARIABLE}=60"
    try:
        return float(text), f"a larger {_VARIABLE}"
    except ValueError:
        raise CheckError(f"{_VARIABLE}={text}: it is a number of seconds, such as 60") from None


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
