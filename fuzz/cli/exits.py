"""Exit codes, the same for every verb."""

from enum import IntEnum


class Exit(IntEnum):
    """What the process exit code means."""

    OK = 0
    FINDINGS = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NOTHING_RAN = 5
    REQUIRED_NOT_RUN = 10
    ORACLE_GAVE_UP = 11
    CANNOT_JUDGE = 125
    """for `git bisect run`: skip this commit."""
