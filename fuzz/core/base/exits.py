"""Exit codes, the same for every verb: the meaning of each, and the first words of a report that ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """The exit code of the process."""

    OK = 0
    FINDINGS = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NOTHING_RAN = 5
    MOSTLY_NOT_JUDGED = 6
    """Nothing was wrong in the judged runs, but most runs or kernels were not judged."""
    REQUIRED_NOT_RUN = 10
    ORACLE_GAVE_UP = 11
    CANNOT_JUDGE = 125
    """A code that makes `git bisect run` skip this commit."""


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "nothing found",
    Exit.FINDINGS: "findings, or a kernel that cannot be built or started",
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM) before anything was found",
    Exit.INTERNAL: "internal error, such as an oracle that contradicts itself (findings are still reported), or "
    "records that could not be written",
    Exit.USAGE: "usage error or broken case file: one line says what to correct",
    Exit.NOTHING_RAN: "nothing ran; from `doctor`: nothing can run",
    Exit.MOSTLY_NOT_JUDGED: "all runs that were judged are right, but most runs were not judged, or most "
    "kernels had no turn; the last line says why",
    Exit.REQUIRED_NOT_RUN: "a required target did not run (`--require`)",
    Exit.ORACLE_GAVE_UP: "the oracle could not decide on some element, or no wrong value of some output could "
    "have been seen",
    Exit.CANNOT_JUDGE: "`repro` cannot tell whether the case fails: its kernel cannot be built or loaded, is not "
    "among the targets, or did not run; it hangs, though it was found to fail in another way; or the oracle gave up. "
    "From `bisect`: no single commit can be named",
}
"""The meaning of each code, as printed by `kernelfuzz explain` and on the page of verdicts."""

ENDINGS: Mapping[Exit, str] = {
    Exit.OK: "passed",
    Exit.FINDINGS: "FAILED",
    Exit.INTERRUPTED: "INTERRUPTED",
    Exit.INTERNAL: "ENDED BY AN ERROR",
    Exit.NOTHING_RAN: "NOTHING RAN",
    Exit.MOSTLY_NOT_JUDGED: "MOSTLY NOT JUDGED",
    Exit.REQUIRED_NOT_RUN: "A REQUIRED TARGET DID NOT RUN",
    Exit.ORACLE_GAVE_UP: "NOT DECIDED",
}
"""The first words of every report. Only a use with exit code 0 passes."""
