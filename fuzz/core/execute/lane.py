"""A lane: one target's worker, and the batches that it is given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.target import Attestation, AttestationError, NotRun, Program, Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome
from fuzz.core.execute.blame import Blame
from fuzz.core.execute.loop import Loop, Queue
from fuzz.core.execute.sharing import Sharing
from fuzz.core.execute.worker import Conduct, Encoded, LostError, Worker
from fuzz.core.transport.ending import EndedError
from fuzz.core.transport.frames import FrameError
from fuzz.core.transport.steps import Steps, taken

_AT_FAULT = (BuildError, AttestationError, EndedError)
"""What ends the start of a worker by its kernel's own doing. A missing device or process is not."""


_NO_TIME_S = 1.0
"""A run does not wait for a case that has run for less at its end: see `GRACE_S` of `campaign/search/stopping.py`."""
UNFINISHED = "the run ended while it was at"
"""With these words begins why a case did not run that the end of a run cut off."""
UNSEEN = Attestation("")
"""The status of a worker that starts with its first case. What it really is is checked then: where that is not what its
target asks for, its cases do not run."""


@dataclass(frozen=True)
class Wait:
    """A target at work, as somebody sees it who waits for it."""

    target: str
    case: Case | None
    """The case that it runs; None while it is built or its process starts."""
    seconds: float
    """The time for which it has been seen at that case."""
    limit: float
    """The limit of a case in seconds."""

    @property
    def name(self) -> str:
        """What it is at, without the time: two with one name are one wait."""
        return "its start" if self.case is None else _described(self.case)

    @property
    def words(self) -> str:
        """Such as 'rms_norm f32 [3, 57], 7 s of 60 s'."""
        if self.case is None:
            return f"it is built or started, {self.seconds:.0f} s"
        return f"{_described(self.case)}, {self.seconds:.0f} s of {self.limit:g} s"

    @property
    def broken_off(self) -> str:
        """Why its cases did not run, where it is waited for no longer. Who was at one for no time to speak of did not
        hold anything up."""
        if self.case is None:
            return f"{UNFINISHED} its start, {self.seconds:.0f} s"
        return f"{UNFINISHED} {_described(self.case) if self.seconds < _NO_TIME_S else self.words}"


def _described(case: Case) -> str:
    x = next(iter(case.inputs.values()))
    return f"{case.op} {x.dtype} {list(x.layout.shape)}"


@dataclass
class TargetBatch:
    """What a batch has for one target: indices of its cases and, once they have run, their outcomes."""

    target: str
    indices: Sequence[int]
    outcomes: Sequence[Outcome] | None = None
    error: FrameError | None = None
    """An internal error, in place of the outcomes."""

    @property
    def done(self) -> bool:
        return self.outcomes is not None or self.error is not None


class Lane:
    """Builds, starts and feeds the worker of one target; what is submitted first is done first.

    It runs no more cases after `most_hangs` cases that hung.
    """

    def __init__(
        self, target: Target, limit: float, loop: Loop, most_hangs: int | None = None, sharing: Sharing | None = None
    ) -> None:
        self.target = target
        self.limit = limit
        self._loop = loop
        self._sharing = sharing or Sharing()
        self._queue = Queue()
        self._conduct = Conduct(most_hangs)
        self._worker: Worker | None = None
        self._program: Program | None = None
        self._stopped = False
        self._cut: tuple[Worker | None, int] = None, 0
        """A worker that was cut off, and the last batch that it was submitted."""
        self._at_work = False
        self._seen: tuple[Case | None, float] = None, 0.0
        """The case that was seen running last, and since when."""

    @property
    def restarts(self) -> int:
        """Processes that were replaced although the kernel did nothing wrong."""
        return self._conduct.restarts + self._conduct.killed_early

    @property
    def pid(self) -> int | None:
        """The id of its process, while there is one."""
        return None if self._worker is None else self._worker.pid

    @property
    def busy_s(self) -> float:
        """Seconds that it has been at work."""
        return self._queue.busy_s

    def start(self, builder: Builder, *, at_once: bool = True) -> Attestation | NotRun:
        """Build the worker and start it, or, where it shares processes and need not be there `at_once`, have it start
        with its first case. Whatever is wrong with the kernel is said of it, and stops no other."""
        self._at_work = True
        try:
            self._program = self._built(builder)
            worker = self._employed()
            if not at_once and self._program.household:
                return UNSEEN
            with self._sharing.in_turn(self.target):
                return taken(worker.start())
        except BuildError as error:
            return NotRun(str(error)) if self._stopped else NotRun.broken_by(error)
        except LostError as error:
            return NotRun.broken_by(error) if isinstance(error.__cause__, _AT_FAULT) else NotRun(str(error))
        finally:
            self._at_work = False

    def _built(self, builder: Builder) -> Program:
        """Return its program. Raises BuildError; a file that went away after it was read is no reason."""
        try:
            return self.target.adapter.program(self.target, builder)
        except BuildError as error:
            if self.target.kernel.lost:
                raise BuildError(self.target.kernel.lost) from error
            raise

    def submit(self, number: int, part: TargetBatch, frames: Sequence[Sequence[Encoded]]) -> None:
        """Run the cases of batch `number`, which are those of `part`."""
        self._loop.submit(self._queue, number, self._run(number, part, frames))

    def renew(self) -> None:
        """Give the target a new process: what is submitted next are its first calls. It has nothing to do now."""
        if self._worker is not None:
            self._worker.renew()

    def wait(self) -> Wait | None:
        """What it is at, if anything; asked several times a second by one who waits for it."""
        if not self._at_work:
            self._seen = None, 0.0
            return None
        case, now = None if self._worker is None else self._worker.case, time.monotonic()
        if case is not self._seen[0] or self._seen[1] == 0.0:
            self._seen = case, now
        return Wait(self.target.id, case, now - self._seen[1], self.limit)

    def cut(self, number: int, reason: str) -> None:
        """Break off the batches up to that number: what is not done of them becomes NOT_RUN, for that reason."""
        self._cut = self._worker, number
        if self._worker is not None:
            self._worker.stop(reason)

    def stop(self) -> None:
        """End the worker for good, and wait for nothing."""
        self._stopped = True
        if self._worker is not None:
            self._worker.stop()

    def close(self) -> None:
        """Release what it holds, after `stop`."""
        if self._worker is not None:
            self._worker.close()

    def _employed(self) -> Worker:
        """A worker of its own, in the place of one that was cut off."""
        assert self._program is not None
        if self._worker is not None:
            self._worker.close()
        self._worker = worker = Worker(self.target, self._program, self.limit, self._conduct, self._sharing)
        if self._conduct.given_up:
            worker.give_up(self._conduct.given_up)
        if self._stopped:
            worker.stop()
        return worker

    def _run(self, number: int, part: TargetBatch, frames: Sequence[Sequence[Encoded]]) -> Steps[None]:
        worker = self._worker
        assert worker is not None
        self._at_work = True
        try:
            if self._cut[0] is worker and number > self._cut[1]:
                worker = self._employed()
            blame = Blame(worker, self._conduct)
            outcomes: list[Outcome] = []
            for frame in frames:
                outcomes += yield from blame.run(frame)
            part.outcomes = outcomes
        except FrameError as error:
            part.error = error
        finally:
            self._at_work = False
