"""The time that a check may take to explain what it finds, as its user says."""

from __future__ import annotations

import os

from fuzz.tasks.check.plan import GIVEN, running_test
from fuzz.tasks.check.results import CheckError

_VARIABLE = "KERNELFUZZ_EXPLAIN_S"
OPTION = "--kernelfuzz-explain-time"
"""What gives more time on the command line of tests."""


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
