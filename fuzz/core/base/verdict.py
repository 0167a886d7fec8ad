"""The closed list of verdicts."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The judgement of one case on one target."""

    PASS = "PASS"
    """Every output element lies in the conformance set, and nothing else was touched."""
    FAIL_NUMERIC = "FAIL_NUMERIC"
    """A finite value outside the conformance interval."""
    FAIL_NONFINITE = "FAIL_NONFINITE"
    """NaN or infinity where none may be, or none where one must be."""
    FAIL_LAW = "FAIL_LAW"
    """A zero-tolerance property does not hold."""
    FAIL_MEMORY = "FAIL_MEMORY"
    """Read or write outside the tensors."""
    FAIL_SHAPE = "FAIL_SHAPE"
    """An output of the wrong shape."""
    FAIL_DTYPE = "FAIL_DTYPE"
    """An output of the wrong dtype."""
    FAIL_INPUT_MODIFIED = "FAIL_INPUT_MODIFIED"
    """An input that is not also an output was changed."""
    FAIL_UNWRITTEN = "FAIL_UNWRITTEN"
    """An output element holds what it held before the call, or a value made from that: it was never written."""
    FAIL_ACCEPTED_INVALID = "FAIL_ACCEPTED_INVALID"
    """An input that must be rejected was accepted."""
    FAIL_PROCESS = "FAIL_PROCESS"
    """The values are right, but the kernel left its process changed: its floating-point environment, its memory in use,
    its descriptors, a child, ..."""
    CRASH = "CRASH"
    """A signal without a tensor near its address, an exception, an ended process, or a kernel that could not be built
    or started."""
    TIMEOUT = "TIMEOUT"
    """No answer within the time limit."""
    REJECTED = "REJECTED"
    """The kernel refused an input that it is declared to accept."""
    ORACLE_GAVE_UP = "ORACLE_GAVE_UP"
    """The precise tier was not stable at twice its precision; never a pass."""
    NOT_RUN = "NOT_RUN"
    """The target did not run; never a pass."""

    @property
    def is_finding(self) -> bool:
        """Whether it says that something is wrong with the kernel."""
        return self not in (Verdict.PASS, Verdict.ORACLE_GAVE_UP, Verdict.NOT_RUN)
