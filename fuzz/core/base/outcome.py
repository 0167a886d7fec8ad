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
    """The kernel said that it does not accept this input."""
    RAISED = "raised"
    """A Python kernel raised an exception that is no rejection; the worker lives."""
    WRONG_SHAPE = "wrong shape"
    """A Python kernel returned an output of another shape."""
    WRONG_DTYPE = "wrong dtype"
    """A Python kernel returned an output of another dtype."""
    FAULT = "fault"
    """A signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE) was caught inside the kernel; the worker lives."""
    REPORTED = "reported"
    """A tool that watches a GPU's memory reported an error in the call; the worker lives."""
    DIED = "died"
    """The worker process ended during this case, and again when it ran alone in a fresh worker."""
    HUNG = "hung"
    """No answer within the time limit, and again when it ran alone in a fresh worker."""
    NOT_RUN = "not run"
    """The target cannot run here; never a pass."""
    MISUSED = "misused"
    """The kernel is not declared or written as the tool requires: a usage error, not a finding."""
    OURS = "ours"
    """Our own part of the worker failed in this case: an internal error, which says nothing about the kernel."""


@dataclass(frozen=True)
class Fault:
    """A signal caught in the kernel. `byte` counts from the nearest end of the tensor's storage."""

    signal: str
    tensor: str | None = None
    """The tensor in whose guarded region the address lies, if any."""
    row: int | None = None
    """The row nearest to the address; rows are counted over all other axes, flattened."""
    byte: int | None = None
    """Bytes past the end (0 or positive: 0 is the first byte after it) or before the start (negative) of the storage;
    None inside a sparse tensor, where only the pages near its elements are accessible."""
    access: str | None = None
    """'read' or 'write', if the machine says which."""
    column: int | None = None
    """The nearest element in that row."""


@dataclass(frozen=True)
class Damage:
    """A change to memory that the kernel does not own."""

    tensor: str
    kind: str
    """'gap' (between or around the elements of a tensor), 'input' (an element of an input that is not an output) or
    'output' (an element of an output, written by a kernel that then rejected the input)."""
    row: int | None
    byte: int
    """The first changed byte: counted past or before the storage as in `Fault`, or from the start of the storage if it
    lies inside."""
    where: str
    """'before', 'inside' or 'after' the storage."""
    count: int
    """The total number of changed bytes."""
    column: int | None = None
    """The element of that row that is nearest to the first changed byte."""


@dataclass(frozen=True)
class Unwritten:
    """Output elements that still hold their poison, in two runs with different poison patterns."""

    output: str
    first: int
    """The flat logical index of the first such element."""
    count: int


CHANGES = (
    "floating-point environment", "calling convention", "memory", "signals", "descriptors", "children", "threads",
    "folder", "environment", "limits", "timers", "scheduling", "library state",
)  # fmt: skip
"""What a kernel can leave changed in its process; a kernel may declare some of it with `keeps`."""


@dataclass(frozen=True)
class Change:
    """A difference in the process between before and after the call."""

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
    """For RAN: each output's elements in C order, little-endian."""
    fault: Fault | None = None
    damage: tuple[Damage, ...] = ()
    unwritten: tuple[Unwritten, ...] = ()
    changes: tuple[Change, ...] = ()
    """Changes that returned calls left in the process."""
    detail: str = ""
    """An explanation in one line for every status but RAN and FAULT, whatever the kernel wrote or raised."""

    def __post_init__(self) -> None:
        if self.detail:
            lines = (line.strip() for line in self.detail.splitlines())
            object.__setattr__(self, "detail", printable(" ".join(line for line in lines if line)))
