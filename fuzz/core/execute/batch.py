"""Batches of cases on their way through workers, what is waited for, and what any pool of workers can do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fuzz.core.adapters.target import Attestation, NotRun
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.transport.frames import FrameError

_NO_TIME_S = 1.0
"""A case that has run for less than this many seconds does not hold up the end of a session; see `GRACE_S` in
`campaign/search/stopping.py`."""
UNFINISHED = "the session ended while it was at"
"""The start of the reason for NOT_RUN of a case that was cut off by the end of a session."""


@dataclass(frozen=True)
class Wait:
    """A target at work, for a caller that waits for it."""

    target: str
    case: Case | None
    """The case that is running, or None while the worker is built or started."""
    seconds: float
    """The seconds for which the target has been seen at this case."""
    limit: float
    """The time limit of a case in seconds."""

    @property
    def name(self) -> str:
        """The activity without the time. Two waits with the same name are the same."""
        return "its start" if self.case is None else _described(self.case)

    @property
    def words(self) -> str:
        """A line such as 'rms_norm f32 [3, 57], 7 s of 60 s'."""
        if self.case is None:
            return f"it is built or started, {self.seconds:.0f} s"
        return f"{_described(self.case)}, {self.seconds:.0f} s of {self.limit:g} s"

    @property
    def broken_off(self) -> str:
        """The reason for NOT_RUN of cases that were still running when the caller stopped to wait. A case that just
        began held nothing up, so its reason names no time."""
        if self.case is None:
            return f"{UNFINISHED} its start, {self.seconds:.0f} s"
        return f"{UNFINISHED} {_described(self.case) if self.seconds < _NO_TIME_S else self.words}"


def _described(case: Case) -> str:
    x = next(iter(case.inputs.values()))
    return f"{case.op} {x.dtype} {list(x.layout.shape)}"


@dataclass
class TargetBatch:
    """The cases of a batch that one target runs, by index, and their outcomes once they have run."""

    target: str
    indices: Sequence[int]
    outcomes: Sequence[Outcome] | None = None
    error: FrameError | None = None
    """An internal error, in place of outcomes."""

    @property
    def done(self) -> bool:
        return self.outcomes is not None or self.error is not None


@dataclass
class Batch:
    """Cases on their way through the workers."""

    cases: tuple[Case, ...]
    parts: list[TargetBatch] = field(default_factory=list, repr=False)
    advance: Callable[[], None] = field(default=lambda: None, repr=False)
    """Brings the batch some steps further, or waits for a moment. It is called until all outcomes are there."""

    def outcomes(self) -> list[dict[str, Outcome]]:
        """Wait for the batch. Return, for each case in order, the outcome of each target that it was dispatched to and
        that runs it in its configuration.

        Raise FrameError, which is an internal error. Anything that a kernel does is an outcome.
        """
        outcomes: list[dict[str, Outcome]] = [{} for _ in self.cases]
        for part in self.parts:
            while not part.done:
                self.advance()
            if part.error is not None:
                raise part.error
            for index, outcome in zip(part.indices, part.outcomes or (), strict=True):
                if outcome.status is not Status.LEFT_OUT:
                    outcomes[index][part.target] = outcome
        return outcomes


Watch = Callable[[Sequence[Wait]], Collection[str]]
"""A function that is called several times a second with the targets at work. It returns the ids of targets that should
not be waited for any longer."""


def patient(waits: Sequence[Wait]) -> Collection[str]:
    """Return no targets, so that every target is waited for."""
    return ()


class Pool(Protocol):
    """The place where cases run: worker processes, or this process."""

    @property
    def statuses(self) -> Mapping[str, Attestation | NotRun]: ...

    @property
    def limits(self) -> Mapping[str, float]:
        """The time limit of a case in seconds, by target. Targets that run in this process have none."""
        ...

    @property
    def threads(self) -> int:
        """The number of processor threads that a call uses unless the case sets it; 0 if unknown."""
        ...

    watch: Watch
    """The function that is called while a batch is waited for."""

    def submit(self, cases: Sequence[Case], without: Collection[str] = (), for_all: Collection[int] = ()) -> Batch: ...

    def renew(self) -> None: ...


def outcomes_on(target: str, pool: Pool, cases: Sequence[Case]) -> list[Outcome | None]:
    """Return the outcome of each case on one target of a pool, None where it does not take the case."""
    return [each.get(target) for each in pool.submit(cases, pool.statuses.keys() - {target}).outcomes()]
