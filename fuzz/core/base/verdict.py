"""The closed list of verdicts."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """What is said of one case on one target."""

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
    """An input that is no output was changed."""
    FAIL_UNWRITTEN = "FAIL_UNWRITTEN"
    """An output element holds what it held before the call: it was never written, or made of that."""
    FAIL_ACCEPTED_INVALID = "FAIL_ACCEPTED_INVALID"
    """An input that must be rejected was taken."""
    FAIL_PROCESS = "FAIL_PROCESS"
    """The values are right, and the kernel left its process changed: its floating-point environment, its memory in use,
    its descriptors, a child, ..."""
    CRASH = "CRASH"
    """A signal that is no memory error near a tensor, an exception, the process ended, or it could not be built or
    started."""
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
        """True for verdicts that say something is wrong with the kernel."""
        return self not in (Verdict.PASS, Verdict.ORACLE_GAVE_UP, Verdict.NOT_RUN)
