"""A lane: the worker of one target, and the batches that it runs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.target import Attestation, AttestationError, NotRun, Program, Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome
from fuzz.core.execute.batch import TargetBatch, Wait
from fuzz.core.execute.blame import Blame
from fuzz.core.execute.loop import Loop, Queue
from fuzz.core.execute.sharing import Sharing
from fuzz.core.execute.worker import Conduct, Encoded, LostError, Worker
from fuzz.core.transport.ending import EndedError
from fuzz.core.transport.frames import FrameError
from fuzz.core.transport.steps import Steps, taken

_AT_FAULT = (BuildError, AttestationError, EndedError)
"""Errors at the start of a worker for which its kernel is to blame. A missing device, or a failed fork, is not one."""
UNSEEN = Attestation("")
"""The status of a worker that is not started before its first case. Its attestation is checked then, and the cases do
not run if it differs from what the target requests."""


class Lane:
    """Builds, starts and feeds the worker of one target, in the order in which cases were submitted. After `most_hangs`
    hung cases it runs no more."""

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
        """The worker that was cut off, and the number of the last batch submitted to it."""
        self._at_work = False
        self._seen: tuple[Case | None, float] = None, 0.0
        """The case that was last seen running, and since when."""

    @property
    def restarts(self) -> int:
        """The number of processes that were replaced although the kernel was not at fault."""
        return self._conduct.restarts + self._conduct.killed_early

    @property
    def pid(self) -> int | None:
        """The id of the worker's process, or None without one."""
        return None if self._worker is None else self._worker.pid

    @property
    def busy_s(self) -> float:
        """The seconds for which the lane has been at work."""
        return self._queue.busy_s

    def start(self, builder: Builder, *, at_once: bool = True) -> Attestation | NotRun:
        """Build and start the worker. If it shares a process with others, it starts with its first case, unless it must
        be there `at_once`. Return its attestation, or a NotRun that says what is wrong; others start anyway."""
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
        """Return the program of the target. Raise BuildError, which says so if a file was lost after it was read."""
        try:
            return self.target.adapter.program(self.target, builder)
        except BuildError as error:
            if self.target.kernel.lost:
                raise BuildError(self.target.kernel.lost) from error
            raise

    def submit(self, number: int, part: TargetBatch, frames: Sequence[Sequence[Encoded]]) -> None:
        """Run those cases of batch `number` that `part` lists."""
        self._loop.submit(self._queue, number, self._run(number, part, frames))

    def renew(self) -> None:
        """Give the target a new process, so that the next case is its first call. The target must be idle."""
        if self._worker is not None:
            self._worker.renew()

    def wait(self) -> Wait | None:
        """Return what the target is doing, or None if it is idle. A waiting caller asks several times a second."""
        if not self._at_work:
            self._seen = None, 0.0
            return None
        case, now = None if self._worker is None else self._worker.case, time.monotonic()
        if case is not self._seen[0] or self._seen[1] == 0.0:
            self._seen = case, now
        return Wait(self.target.id, case, now - self._seen[1], self.limit)

    def cut(self, number: int, reason: str) -> None:
        """Break off all batches up to this number. Their unfinished cases become NOT_RUN with this reason."""
        self._cut = self._worker, number
        if self._worker is not None:
            self._worker.stop(reason)

    def stop(self) -> None:
        """End the worker for good, without waiting."""
        self._stopped = True
        if self._worker is not None:
            self._worker.stop()

    def close(self) -> None:
        """Release the worker's resources. Call `stop` first."""
        if self._worker is not None:
            self._worker.close()

    def _employed(self) -> Worker:
        """Return a new worker for the program, after closing the last one."""
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
