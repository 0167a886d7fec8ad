"""A lane: one target's worker and the thread that talks to it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from fuzz.adapters.build import Builder, BuildError
from fuzz.adapters.target import Attestation, AttestationError, NotRun, Program, Target
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.execute.blame import Blame, Conduct
from fuzz.execute.schedule import Schedule
from fuzz.execute.worker import Encoded, LostError, Worker
from fuzz.transport.process import EndedError

_AT_FAULT = (BuildError, AttestationError, EndedError)
"""What ends the start of a worker by its kernel's own doing. A missing device or process is not."""


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
    def words(self) -> str:
        """Such as 'rms_norm f32 [3, 57], 7 s of 60 s'."""
        if self.case is None:
            return f"it is built or started, {self.seconds:.0f} s"
        x = next(iter(self.case.inputs.values()))
        return f"{self.case.op} {x.dtype} {list(x.layout.shape)}, {self.seconds:.0f} s of {self.limit:g} s"


class Lane:
    """Builds, starts and feeds the worker of one target; what is submitted first is done first.

    With `most_hangs` it runs no more cases after so many that hung.
    """

    def __init__(self, target: Target, limit: float, schedule: Schedule, most_hangs: int | None = None) -> None:
        self.target = target
        self.busy_s = 0.0
        self._limit = limit
        self._schedule = schedule
        self._conduct = Conduct(most_hangs)
        self._worker: Worker | None = None
        self._program: Program | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=target.id)
        self._stopped = False
        self._cut: tuple[Worker | None, int] = None, 0
        """A worker that was cut off, and the last batch that it was submitted."""
        self._at_work = False
        self._seen: tuple[Case | None, float] = None, 0.0
        """The case that was seen running last, and since when."""

    @property
    def restarts(self) -> int:
        """Processes that were replaced although the kernel did nothing wrong."""
        return self._conduct.restarts

    @property
    def pid(self) -> int | None:
        """The id of its process, while there is one."""
        return None if self._worker is None else self._worker.pid

    def start(self, builder: Builder) -> Future[Attestation | NotRun]:
        """Build the worker and start it. Whatever is wrong with the kernel is said of it, and stops no other."""
        return self._thread.submit(self._start, builder)

    def submit(self, number: int, frames: Sequence[Sequence[Encoded]]) -> Future[list[Outcome]]:
        """Run the cases of batch `number`: one outcome each, in order."""
        return self._thread.submit(self._run, number, frames)

    def renew(self) -> Future[None]:
        """Give the target a new process: what is submitted next are its first calls."""
        return self._thread.submit(self._renew)

    def wait(self) -> Wait | None:
        """What it is at, if anything; asked several times a second by one who waits for it."""
        if not self._at_work:
            self._seen = None, 0.0
            return None
        case, now = None if self._worker is None else self._worker.case, time.monotonic()
        if case is not self._seen[0] or self._seen[1] == 0.0:
            self._seen = case, now
        return Wait(self.target.id, case, now - self._seen[1], self._limit)

    def cut(self, number: int, reason: str) -> None:
        """Break off the batches up to that number: what is not done of them becomes NOT_RUN, for that reason."""
        self._cut = self._worker, number
        if self._worker is not None:
            self._worker.stop(reason)

    def stop(self) -> None:
        """End the worker for good, and wait for nothing."""
        self._stopped = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._worker is not None:
            self._worker.stop()

    def close(self) -> None:
        """Release what it holds, after `stop`."""
        self._thread.shutdown(wait=True)
        if self._worker is not None:
            self._worker.close()

    def _start(self, builder: Builder) -> Attestation | NotRun:
        self._at_work = True
        try:
            self._program = self.target.adapter.program(self.target, builder)
            return self._employed().start()
        except BuildError as error:
            return NotRun(str(error)) if self._stopped else NotRun.broken_by(error)
        except LostError as error:
            return NotRun.broken_by(error) if isinstance(error.__cause__, _AT_FAULT) else NotRun(str(error))
        finally:
            self._at_work = False

    def _employed(self) -> Worker:
        """A worker of its own, in the place of one that was cut off."""
        assert self._program is not None
        if self._worker is not None:
            self._worker.close()
        self._worker = worker = Worker(self.target, self._program, self._limit)
        if self._conduct.given_up:
            worker.give_up(self._conduct.given_up)
        if self._stopped:
            worker.stop()
        return worker

    def _run(self, number: int, frames: Sequence[Sequence[Encoded]]) -> list[Outcome]:
        worker = self._worker
        assert worker is not None
        # More workers than processors would only take time from one another, and count it against their cases. Of one
        # batch the slowest go first: it is done with its last.
        with self._schedule.slot((number, -self.busy_s)):
            began, self._at_work = time.monotonic(), True
            try:
                if self._cut[0] is worker and number > self._cut[1]:
                    worker = self._employed()
                blame = Blame(worker, self._conduct)
                return [outcome for frame in frames for outcome in blame.run(frame)]
            finally:
                self._at_work = False
                self.busy_s += time.monotonic() - began

    def _renew(self) -> None:
        assert self._worker is not None
        self._worker.renew()
