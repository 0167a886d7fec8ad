"""A worker: one process at a time for one target, which is started, attested, given cases and ended."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fuzz.core.adapters.build import BuildError
from fuzz.core.adapters.target import Attestation, AttestationError, Program, Target, Unavailable
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.sharing import Sharing
from fuzz.core.transport import records
from fuzz.core.transport.ending import EndedError, Ending
from fuzz.core.transport.frames import AnswerError, Answers, CountError, Response, longest_answer, outcome_of
from fuzz.core.transport.process import Process
from fuzz.core.transport.steps import Steps

_PATIENCE_S = 1.0
"""The least seconds after which a case counts as hung: a busy machine, or a first call, may need them. Chosen."""
_UNUSUAL = 100.0
"""The factor on the usual time of the target's cases above which a case may count as hung. Cases of a search differ in
size by far more, but the largest take less than a second."""
ATTEMPTS = 3
"""How often a worker that is killed from outside is started. Chosen."""
_RECENT_CASES, _RECENT_BYTES = 256, 1 << 20
"""The largest number of calls before the end of a process, and of bytes of their cases, that are kept so that they can
be repeated. Kernels that fail only now and then count calls, or fill something up; the planted kernels of this kind
fail within 100 calls."""


class Encoded(NamedTuple):
    """A case on its way to workers, encoded once for all of them."""

    case: Case
    data: bytes
    """The case as bytes of the workers' protocol."""
    answers: Answers
    """The answers of targets to the case so far."""


class LostError(Exception):
    """The worker cannot be started again, or is no longer wanted. The message says why."""


@dataclass
class Conduct:
    """The record of a target over all its processes: restarts, hangs, calls and time."""

    most_hangs: int | None = None
    """The number of hung cases after which the target gets no more; None for no limit, if nobody waits for it."""
    hangs: int = 0
    restarts: int = 0
    """The number of processes that were replaced after a death from outside, or a hang, that no rerun repeated."""
    killed_early: int = 0
    """The number of processes that were killed from outside before they attested anything, so that no case was lost."""
    attributions: int = 0
    calls: int = 0
    """The number of cases that were answered."""
    busy_s: float = 0.0
    """The seconds that these cases took."""
    doubts: int = 0
    """The number of cases that seemed to hang after a short wait, but returned when they ran alone."""

    def patience(self, limit: float) -> float:
        """Return the seconds after which a case seems to hang, which a rerun then confirms. They double whenever a
        rerun shows that the case did not hang."""
        usual = self.busy_s / self.calls if self.calls else 0.0
        return min(limit, max(_PATIENCE_S, _UNUSUAL * usual) * 2.0**self.doubts)

    @property
    def searches(self) -> bool:
        """Whether the target belongs to a search, which always has more cases and other targets that would wait for
        this one, so that a few cases need not run."""
        return self.most_hangs is not None

    @property
    def given_up(self) -> str:
        """The reason why the target gets no more cases; '' while it gets some."""
        hangs_too_often = self.most_hangs is not None and self.hangs >= self.most_hangs
        return f"not run again after {self.hangs} cases that hung" if hangs_too_often else ""


class _Recent:
    """The latest cases that a process has run."""

    def __init__(self) -> None:
        self.calls = 0
        """The total number of cases that the process has run."""
        self._cases: deque[Encoded] = deque()
        self._bytes = 0

    @property
    def cases(self) -> tuple[Encoded, ...]:
        return tuple(self._cases)

    def add(self, cases: Sequence[Encoded]) -> None:
        self.calls += len(cases)
        self._cases.extend(cases)
        self._bytes += sum(len(each.data) for each in cases)
        while len(self._cases) > _RECENT_CASES or self._bytes > _RECENT_BYTES:
            self._bytes -= len(self._cases.popleft().data)


class Worker:
    """The process of one target, and its successors if it ends. `limit` is in seconds per case. If programs share a
    process, it belongs to the worker that used it last."""

    def __init__(
        self, target: Target, program: Program, limit: float, conduct: Conduct, sharing: Sharing | None = None
    ) -> None:
        self.target = target
        self.limit = limit
        self._conduct = conduct
        self._program = program
        self._process: Process | None = None
        self._sharing = sharing or Sharing()
        self._former: Process | None = None
        """The process that made the worker's latest calls. It may belong to another worker by now."""
        self._at_work = False
        self._has_guests = False
        """Whether other kernels have run in the worker's process."""
        self._wants_fresh = False
        self._is_apart = False
        """Whether the worker shares no process, because its kernel cannot be loaded after others."""
        self._lost: str | None = None
        self._recent = _Recent()
        self._running: tuple[Sequence[Encoded], list[Outcome], int] = (), [], 0
        """The cases that were sent, the list to which their outcomes are added, and the length of the list before."""

    @property
    def pid(self) -> int | None:
        """The process id, or None without a process."""
        process = self._process
        return process.pid if process is not None else None

    @property
    def case(self) -> Case | None:
        """The case that is running, or None while a process starts."""
        cases, outcomes, before = self._running
        process = self._process
        at = max(len(outcomes) - before, 0 if process is None else process.begun - 1)
        return cases[at].case if 0 <= at < len(cases) else None

    @property
    def recent(self) -> Sequence[Encoded]:
        """The latest cases of the worker's process, or of the one that ended."""
        return self._recent.cases

    def start(self) -> Steps[Attestation]:
        """Start the process and check its attestation. Raise LostError. If its cause is a BuildError, an
        AttestationError or an EndedError, the kernel is at fault."""
        if self._lost is not None:
            raise LostError(self._lost)
        self._at_work = True
        try:
            hello = yield from self._hello()
        except OSError as error:
            self._process = None
            raise self._given_up(f"the worker cannot be started: {error}") from error
        except EndedError as error:
            lost, cause = yield from self._unready(error)
            raise lost from cause
        finally:
            self._at_work = False
        if not self._is_apart:
            self._sharing.join(self, self._program)
        return (yield from self._attested(hello))

    def _unready(self, error: EndedError) -> Steps[tuple[LostError, Exception]]:
        """Return the error to raise if a process ended before its hello; `error` is its cause if the kernel is at
        fault."""
        process, self._process, ending = self._process, None, error.ending
        said = str(error)
        if ending.hung and process is not None:
            said = f"it is not ready after {process.start_limit:g} s{f': {ending.said}' if ending.said else ''}"
        hindrance = "" if ending.cut or self._lost is not None else (yield from self._hindrance())
        lost = self._given_up(hindrance or f"the worker cannot be started: {said}\n{ending.trace}".strip())
        return lost, ConnectionError(str(error)) if ending.cut or hindrance else error

    def _hindrance(self) -> Steps[str]:
        """Return why not even an idle process like this worker's can be started here, or '' if one can."""
        try:
            bystander = self._program.bystander()
        except (BuildError, OSError):
            return ""
        if bystander is None:
            return ""
        self._process = bystander.process
        if self._lost is not None:  # stopped before there was a process to kill
            bystander.process.kill()
        found = yield from bystander.hindrance()
        self._process = None
        return "" if self._lost is not None else found

    def _attested(self, hello: str) -> Steps[Attestation]:
        """Return the process's attestation after checking it. If other kernels have run in the process, a mismatch is
        checked again in a new process."""
        try:
            return self._program.attested(hello)
        except (Unavailable, BuildError, AttestationError) as error:
            had_guests = self._has_guests
            self.renew()
            if had_guests:  # other kernels may have registered or patched something
                self._is_apart = True
                self._sharing.leave(self, self._program)
                return (yield from self.start())
            raise self._given_up(str(error)) from error
        except (LookupError, ValueError, TypeError, RecursionError) as error:  # the hello may contain any JSON
            self.renew()
            wrong = AttestationError(f"its worker says of itself what cannot be read: {error!r}")
            raise self._given_up(str(wrong)) from wrong

    def run(
        self, cases: Sequence[Encoded], outcomes: list[Outcome], audits: int = records.AUDIT_LAST,
        *, patient: bool = False,
    ) -> Steps[Ending | None]:  # fmt: skip
        """Run `cases` and add their outcomes to `outcomes`, until all are done or the process ends. Return None or how
        it ended. A `patient` run gives each case its full time limit. Raise LostError."""
        if self._process is None:
            yield from self.start()
        assert self._process is not None
        if self._process is not self._former:
            self._former, self._recent = self._process, _Recent()
        self._running = cases, outcomes, len(outcomes)
        self._at_work = True
        hurried = not (patient or self.target.batched or self.target.kernel.compiles)
        self._process.patience = self._conduct.patience(self.limit) if hurried else self.limit
        try:
            yield from self._exchange(self._process, cases, outcomes, audits)
        except EndedError as error:
            self._process, self._wants_fresh = None, True
            if error.ending.cut:
                raise self._given_up(str(error.ending)) from error
            return error.ending
        finally:
            self._running = (), [], 0
            self._at_work = False
        return None

    def lend(self) -> Process | None:
        """Return and give up the worker's process, unless it is at work. For its next case the worker takes over
        another process or starts one."""
        if self._at_work:
            return None
        process, self._process = self._process, None
        return process

    def renew(self) -> None:
        """End the process, so that the next case is the first call of a new one."""
        self._wants_fresh = True
        if self._process is not None:
            self._process.close()
            self._process = None

    def give_up(self, reason: str) -> None:
        """Run no more cases, for this reason."""
        self._lost = self._lost or reason

    def stop(self, reason: str = "the session was stopped") -> None:
        """End the process for good. Cases that are running are lost, for this reason."""
        self._lost = reason
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process and release its resources."""
        self.stop()
        self._sharing.leave(self, self._program)
        if self._process is not None:
            self._process.close()

    def _given_up(self, reason: str) -> LostError:
        self.give_up(reason)
        return LostError(self._lost)

    def _hello(self) -> Steps[str]:
        """Return the first message of a process. Take over a process, or start one if none is idle or a fresh one is
        wanted. If the process is killed before its hello, start another."""
        found = None if self._wants_fresh or self._is_apart else self._sharing.taken_over(self, self._program)
        if found is not None:
            try:
                self._process, self._has_guests = found, True
                return (yield from found.load(self._program.order, self.limit))
            except EndedError:  # it ended while idle, or cannot load this kernel, and nobody is to blame
                self._process = None
        self._wants_fresh = self._has_guests = False
        for attempt in range(ATTEMPTS):
            try:
                self._process = self._program.process(self.limit)
                if self._lost is not None:  # stopped before there was a process to kill
                    self._process.kill()
                return (yield from self._process.hello())
            except EndedError as error:
                if self._lost is not None or not error.ending.from_outside or attempt == ATTEMPTS - 1:
                    raise
                self._conduct.killed_early += 1
        raise AssertionError("unreachable")

    def _exchange(
        self, process: Process, cases: Sequence[Encoded], outcomes: list[Outcome], audits: int
    ) -> Steps[None]:
        since = time.monotonic()

        def take(responses: Sequence[Response]) -> None:
            nonlocal since
            before = len(outcomes)
            self._conduct.busy_s += time.monotonic() - since
            self._conduct.calls += len(responses)
            since = time.monotonic()
            try:
                for response in responses:
                    earlier = self._has_guests or self._recent.calls or len(outcomes) > before
                    if response.status == records.NO_MEMORY and earlier:
                        process.refuse("earlier calls left no memory for this case")
                    outcomes.append(self._outcome(response, cases[response.position], process))
            finally:
                if len(outcomes) > before:
                    first = responses[0].position
                    self._recent.add(cases[first : first + len(outcomes) - before])

        def longest(position: int) -> int:
            return longest_answer(cases[position].case)

        yield from process.exchange([each.data for each in cases], take, audits, longest)

    def _outcome(self, response: Response, case: Encoded, process: Process) -> Outcome:
        """Return the outcome that the response reports, without changes that the kernel declares. Raise EndedError."""
        try:
            outcome = outcome_of(response, case.case, self.target.id, case.answers)
        except CountError as error:
            if not process.foreign:  # this package's workers count correctly, so this one was overwritten
                process.refuse_answer(str(error))
            return Outcome(self.target.id, Status.WRONG_SHAPE, detail=str(error))
        except AnswerError as error:
            process.refuse_answer(str(error))
        if outcome.status is Status.OURS and self.target.kernel.untrusted:
            process.refuse_answer(outcome.detail)  # nobody can tell who said this
        kept = self.target.kernel.keeps
        if not outcome.changes or not kept:
            return outcome
        return replace(outcome, changes=tuple(change for change in outcome.changes if change.kind not in kept))
