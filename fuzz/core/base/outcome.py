"""An outcome: what one target did with one case, before it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from fuzz.core.base.text import printable


class Status(Enum):
    """How the call ended."""

    RAN = "ran"
    """The kernel returned normally."""
    REJECTED = "rejected"
    """The kernel stated that it does not accept this input."""
    RAISED = "raised"
    """A Python kernel raised an exception that is no rejection. The worker still runs."""
    WRONG_SHAPE = "wrong shape"
    """A Python kernel returned an output of another shape."""
    WRONG_DTYPE = "wrong dtype"
    """A Python kernel returned an output of another dtype."""
    FAULT = "fault"
    """A signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE) was caught inside the kernel. The worker still runs."""
    REPORTED = "reported"
    """A tool that watches a GPU's memory reported an error in the call. The worker still runs."""
    DIED = "died"
    """The worker process ended during this case, and again when the case ran alone in a fresh worker."""
    HUNG = "hung"
    """There was no answer within the time limit, and again when the case ran alone in a fresh worker."""
    NOT_RUN = "not run"
    """The target cannot run here. This is never a pass."""
    LEFT_OUT = "left out"
    """The target's configuration does not run this case, because the kernel's autotuner prunes it for such a call. The
    case counts as not dispatched to the target."""
    MISUSED = "misused"
    """The kernel is not declared or written as the tool requires: a usage error, not a finding."""
    OURS = "ours"
    """The worker itself failed in this case. This internal error says nothing about the kernel."""


class LeftOutError(BaseException):
    """Raised when a launch is reached in a configuration that the kernel itself prunes for such a call. It is no
    `Exception`, so that no `except Exception` in a kernel catches it."""


class MisuseError(Exception):
    """Raised around a kernel that cannot be called or read as declared. The message says what to write instead."""


@dataclass(frozen=True)
class Fault:
    """A signal caught in the kernel. `byte` counts from the nearest end of the tensor's storage."""

    signal: str
    tensor: str | None = None
    """The tensor whose guarded region contains the address, if any."""
    row: int | None = None
    """The row nearest to the address. Rows are counted over all other axes, flattened."""
    byte: int | None = None
    """The number of bytes past the end of the storage (0 for the first byte after it) or before its start (negative).
    None inside a sparse tensor, where only the pages near its elements are accessible."""
    access: str | None = None
    """'read' or 'write', if the machine tells; else None."""
    column: int | None = None
    """The nearest element in the nearest row."""


@dataclass(frozen=True)
class Damage:
    """A change to memory that the kernel does not own."""

    tensor: str
    kind: str
    """'gap' (memory between or around a tensor's elements), 'input' (an element of an input that is not an output) or
    'output' (an element of an output, written by a kernel that then rejected the input)."""
    row: int | None
    byte: int
    """The offset of the first changed byte: from the storage's end if it is after it, else from its start."""
    where: str
    """The position of the change: 'before', 'inside' or 'after' the storage."""
    count: int
    """The total number of changed bytes."""
    column: int | None = None
    """The element of the row that is nearest to the first changed byte."""


@dataclass(frozen=True)
class Unwritten:
    """Output elements that still hold their poison after two runs with different poisons."""

    output: str
    first: int
    """The flat logical index of the first unwritten element."""
    count: int


CHANGES = (
    "floating-point environment", "calling convention", "memory", "signals", "descriptors", "children", "threads",
    "folder", "environment", "limits", "timers", "scheduling", "library state",
)  # fmt: skip
"""The kinds of changes that a kernel can leave in its process. It may declare that it leaves some (`keeps`)."""


@dataclass(frozen=True)
class Change:
    """A difference in the process between before and after the call."""

    kind: str
    """One of CHANGES."""
    words: str

    @property
    def lasts(self) -> bool:
        """Whether later calls are affected too. The worker restores registers, and lost memory changes no results."""
        return self.kind not in ("calling convention", "memory")

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"


@dataclass(frozen=True)
class Outcome:
    """What `target` did with a case."""

    target: str
    status: Status
    outputs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """For RAN: the elements of each output in C order, little-endian."""
    fault: Fault | None = None
    damage: tuple[Damage, ...] = ()
    unwritten: tuple[Unwritten, ...] = ()
    changes: tuple[Change, ...] = ()
    """Changes that this call, or other calls that returned, left in the process."""
    detail: str = ""
    """An explanation in one line, for every status but RAN and FAULT. Line ends and control characters are removed."""

    def __post_init__(self) -> None:
        if self.detail:
            lines = (line.strip() for line in self.detail.splitlines())
            object.__setattr__(self, "detail", printable(" ".join(line for line in lines if line)))
