"""An outcome: what one target did with one case, before anybody judges it."""

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
    """The kernel said that it does not take this input."""
    RAISED = "raised"
    """A Python kernel raised what is no rejection; the worker lives."""
    WRONG_SHAPE = "wrong shape"
    """A Python kernel returned an output of another shape."""
    WRONG_DTYPE = "wrong dtype"
    """A Python kernel returned an output of another dtype."""
    FAULT = "fault"
    """A signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE) was caught inside the kernel; the worker lives."""
    REPORTED = "reported"
    """A tool that watches the memory of a GPU reported an error in the call; the worker lives."""
    DIED = "died"
    """The worker process ended during this case, and again when it ran alone in a fresh worker."""
    HUNG = "hung"
    """No answer within the time limit, and again when it ran alone in a fresh worker."""
    NOT_RUN = "not run"
    """The target cannot run here; never a pass."""
    MISUSED = "misused"
    """The kernel is not declared or written as the tool asks: a usage error, and no finding."""
    OURS = "ours"
    """Our own part of the worker failed at this case: an internal error, which says nothing of the kernel."""


@dataclass(frozen=True)
class Fault:
    """A signal caught in the kernel. `byte` counts from the nearest end of the tensor's storage."""

    signal: str
    tensor: str | None = None
    """The tensor whose guarded region holds the address, if any."""
    row: int | None = None
    """The row (all axes but that of the rows, flattened) nearest to the address."""
    byte: int | None = None
    """Bytes past the end (positive: 0 is the first byte after it) or before the start (negative) of the storage; None
    inside a tensor so large that only what is near its elements is accessible."""
    access: str | None = None
    """'read' or 'write', where the machine tells."""
    column: int | None = None
    """The element of that row that is nearest."""


@dataclass(frozen=True)
class Damage:
    """Memory that the kernel changed and does not own."""

    tensor: str
    kind: str
    """'gap' (between or around the elements of a tensor), 'input' (an element of an input that is not an output) or
    'output' (an element of an output, written by a kernel that then rejected the input)."""
    row: int | None
    byte: int
    """It counts as in Fault past or before the storage, and from its start inside the storage."""
    where: str
    """'before', 'inside' or 'after' the storage."""
    count: int
    """The number of changed bytes in all."""
    column: int | None = None
    """The element of that row that is nearest to the first of them."""


@dataclass(frozen=True)
class Unwritten:
    """Output elements that still hold the poison they were given, under two different poison patterns."""

    output: str
    first: int
    """The flat logical index of the first such element."""
    count: int


CHANGES = (
    "floating-point environment", "calling convention", "memory", "signals", "descriptors", "children", "threads",
    "folder", "environment", "limits", "timers", "scheduling", "library state",
)  # fmt: skip
"""What of its process a kernel can leave changed behind it; a kernel may declare that it keeps some of it."""


@dataclass(frozen=True)
class Change:
    """Something of the process that is another one after the call."""

    kind: str
    """One of CHANGES."""
    words: str

    @property
    def lasts(self) -> bool:
        """Whether later calls meet it too. The worker itself gives registers back, and memory that is lost does not
        change what a call computes."""
        return self.kind not in ("calling convention", "memory")

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"


@dataclass(frozen=True)
class Outcome:
    """What `target` did with a case."""

    target: str
    status: Status
    outputs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The logical elements in C order, little-endian, for RAN."""
    fault: Fault | None = None
    damage: tuple[Damage, ...] = ()
    unwritten: tuple[Unwritten, ...] = ()
    changes: tuple[Change, ...] = ()
    """What the process is left with; of calls that returned."""
    detail: str = ""
    """Plain words, for every status but RAN and FAULT: one line, whatever the kernel wrote or raised."""

    def __post_init__(self) -> None:
        if self.detail:
            lines = (line.strip() for line in self.detail.splitlines())
            object.__setattr__(self, "detail", printable(" ".join(line for line in lines if line)))
