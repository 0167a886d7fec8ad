"""How fast the tool itself is: what a judged run costs, and what the plain way of testing kernels costs beside it."""

from __future__ import annotations

from dataclasses import dataclass

STAGES = ("drawing", "transport", "executing", "judging")
"""Drawing makes a case bit-exact; transport takes it to workers and the outcome back; executing is all that workers and
emulators do; judging asks the oracle and the laws."""


@dataclass(frozen=True)
class Cost:
    """Seconds of processors for judged runs, by stage. Work of others on the machine does not change them much."""

    what: str
    """The targets, or the size of the cases."""
    runs: int
    drawing: float
    transport: float
    executing: float
    judging: float

    @property
    def total(self) -> float:
        return self.drawing + self.transport + self.executing + self.judging

    @property
    def rate(self) -> float:
        """Judged runs a second of one processor."""
        return self.runs / self.total

    def share(self, stage: str) -> float:
        """Return the share of the total that a stage takes."""
        return float(getattr(self, stage)) / self.total

    def each(self, stage: str) -> float:
        """Seconds a judged run."""
        return float(getattr(self, stage)) / self.runs


@dataclass(frozen=True)
class Scaling:
    """What one command judged with so many processes, by the clock on the wall."""

    processes: int
    judged: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.judged / self.seconds


@dataclass(frozen=True)
class Plain:
    """What the plain way judged on one target."""

    target: str
    runs: int
    failures: int
    seconds: float
    """By the clock on the wall: it is one process at a time."""
    cpu: float
    """Seconds of processors, children included."""

    @property
    def rate(self) -> float:
        """Judged runs a second of one processor."""
        return self.runs / self.cpu
