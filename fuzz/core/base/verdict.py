"""The closed list of verdicts."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The judgement of one case on one target."""

    PASS = "PASS"
    """Every output element lies in the conformance set, and no other memory was changed."""
    FAIL_NUMERIC = "FAIL_NUMERIC"
    """A finite value lies outside the conformance interval."""
    FAIL_NONFINITE = "FAIL_NONFINITE"
    """NaN or infinity where none is allowed, or none where one is required."""
    FAIL_LAW = "FAIL_LAW"
    """A law, which allows no difference at all, does not hold."""
    FAIL_MEMORY = "FAIL_MEMORY"
    """The kernel read or wrote outside the tensors."""
    FAIL_SHAPE = "FAIL_SHAPE"
    """An output of the wrong shape."""
    FAIL_DTYPE = "FAIL_DTYPE"
    """An output of the wrong dtype."""
    FAIL_INPUT_MODIFIED = "FAIL_INPUT_MODIFIED"
    """An input that is not also an output was changed."""
    FAIL_UNWRITTEN = "FAIL_UNWRITTEN"
    """An output element holds its value from before the call, or a value made from that: it was never written."""
    FAIL_ACCEPTED_INVALID = "FAIL_ACCEPTED_INVALID"
    """The kernel accepted an input that it must reject."""
    FAIL_PROCESS = "FAIL_PROCESS"
    """The values are right, but the kernel left its process changed: the floating-point environment, memory in use,
    descriptors, a child process, ..."""
    CRASH = "CRASH"
    """A signal with no tensor near, an exception, an ended process, or a kernel that cannot be built or started."""
    TIMEOUT = "TIMEOUT"
    """No answer within the time limit."""
    REJECTED = "REJECTED"
    """The kernel refused an input that it is declared to accept."""
    ORACLE_GAVE_UP = "ORACLE_GAVE_UP"
    """The precise tier did not decide: no two precisions agreed, or its time ran out. This is never a pass."""
    NOT_RUN = "NOT_RUN"
    """The target did not run. This is never a pass."""

    @property
    def is_finding(self) -> bool:
        """Whether the verdict says that something is wrong with the kernel."""
        return self not in (Verdict.PASS, Verdict.ORACLE_GAVE_UP, Verdict.NOT_RUN)
