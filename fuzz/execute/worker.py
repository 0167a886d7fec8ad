"""A worker: the process of one target, kept alive whatever its kernel does."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from fuzz.adapters.target import Attestation, AttestationError, Program, Target, Unavailable
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome, Status
from fuzz.transport import records
from fuzz.transport.frames import AnswerError, FrameError, Response, outcome_of
from fuzz.transport.process import EndedError, Ending, Process

Encoded = tuple[Case, bytes]
"""A case and its bytes in the protocol."""

ATTEMPTS = 3
"""A worker that is killed from outside is tried this many times."""
_RECENT_CASES, _RECENT_BYTES = 256, 1 << 20
"""So many of the calls before a death are made again to see whether it comes again. Kernels that die now and then count
calls, or fill something up: the planted ones do it within 100."""
_UNEXPLAINED = 5
"""So often a target's worker may be killed or hang with nothing that shows it again before that is its kernel's doing.
An operator, or a machine short of memory, ends one worker once or twice."""
_ATTRIBUTIONS = 3
"""So often the case that changed the process is looked for; after that the last case of the frame stands for it."""


class LostError(Exception):
    """The worker cannot be started again. The message says why."""


class _Recent:
    """The latest cases that a process has run."""

    def __init__(self) -> None:
        self.calls = 0
        """How many it has run in all."""
        self._cases: deque[Encoded] = deque()
        self._bytes = 0

    @property
    def cases(self) -> tuple[Encoded, ...]:
        return tuple(self._cases)

    def add(self, case: Encoded) -> None:
        self.calls += 1
        self._cases.append(case)
        self._bytes += len(case[1])
        while len(self._cases) > _RECENT_CASES or self._bytes > _RECENT_BYTES:
            self._bytes -= len(self._cases.popleft()[1])


class Worker:
    """Runs cases on one target. Each case gets an outcome, even when the process dies or cannot be restarted.

    `limit` is in seconds per case. All methods but `stop` belong to one thread.
    """

    def __init__(self, target: Target, program: Program, limit: float) -> None:
        self.target = target
        self.restarts = 0
        """processes replaced after a death from outside, or a hang, that nothing showed again."""
        self._program = program
        self._limit = limit
        self._process: Process | None = None
        self._lost: str | None = None
        self._recent = _Recent()
        self._attributions = 0

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        process = self._process
        return process.pid if process is not None else None

    def start(self) -> Attestation:
        """Start the process and check what it is. Raises LostError or AttestationError."""
        if self._lost is not None:
            raise LostError(self._lost)
        try:
            hello = self._hello()
        except (OSError, EndedError) as error:
            self._process = None
            self._lost = self._lost or f"the worker cannot be started: {error}"
            raise LostError(self._lost) from error
        try:
            return self._program.attested(hello)
        except Unavailable as error:
            self._lost = str(error)
            raise LostError(self._lost) from error

    def run(self, cases: Sequence[Encoded]) -> list[Outcome]:
        """One outcome per case, in order, whatever the kernel does. Raises FrameError, an internal error, where we sent
        what is no case of its op."""
        outcomes: list[Outcome] = []
        try:
            while len(outcomes) < len(cases):
                start = len(outcomes)
                ending = self._continue(cases[start:], outcomes)
                rest = cases[len(outcomes) :]
                if len(outcomes) > start:
                    self._attribute_changes(cases[start : len(outcomes)], outcomes)
                if ending is not None and self.target.batched and len(rest) > 1:
                    self._find_culprits(rest, ending, outcomes)
                elif ending is not None:
                    outcomes.append(self._judge_culprit(rest[0], ending))
        except LostError as error:
            missing = Outcome(self.target.id, Status.NOT_RUN, detail=str(error))
            outcomes += [missing] * (len(cases) - len(outcomes))
        return outcomes

    def renew(self) -> None:
        """End the process; the next case is the first call of a new one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def stop(self) -> None:
        """End the process for good, from any thread. What `run` has not finished becomes NOT_RUN."""
        self._lost = "the run was stopped"
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process and release what it holds."""
        self.stop()
        if self._process is not None:
            self._process.close()

    def _hello(self) -> str:
        """Start a process; another one when somebody kills it before it speaks."""
        for attempt in range(ATTEMPTS):
            try:
                self._process = self._program.process(self._limit)
                if self._lost is not None:  # stopped before there was a process to kill
                    self._process.kill()
                return self._process.hello()
            except EndedError as error:
                if self._lost is not None or not error.ending.from_outside or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _restarted(self) -> Process:
        """A new process. Raises LostError."""
        try:
            self.start()
        except AttestationError as error:
            self._lost = str(error)
            raise LostError(self._lost) from error
        assert self._process is not None
        return self._process

    def _continue(
        self, cases: Sequence[Encoded], outcomes: list[Outcome], audits: int = records.AUDIT_LAST
    ) -> Ending | None:
        """Run `cases` until they are done (None) or the process ends. Raises LostError."""
        if self._process is None:
            self._recent = _Recent()
        process = self._process or self._restarted()
        try:
            for each, response in zip(cases, process.exchange([encoded for _, encoded in cases], audits), strict=True):
                if response.status == records.NO_MEMORY and self._recent.calls:
                    process.refuse("earlier calls left no memory for this case")
                outcomes.append(self._outcome(response, each[0], process))
                self._recent.add(each)
        except EndedError as error:
            self._process = None
            return error.ending
        return None

    def _outcome(self, response: Response, case: Case, process: Process) -> Outcome:
        """What the response says; a change that the kernel declares to keep is none. Raises EndedError."""
        try:
            outcome = outcome_of(response, case, self.target.id)
        except AnswerError as error:
            process.refuse_answer(str(error))
        kept = self.target.kernel.keeps
        if not outcome.changes or not kept:
            return outcome
        return replace(outcome, changes=tuple(change for change in outcome.changes if change.kind not in kept))

    def _attribute_changes(self, cases: Sequence[Encoded], outcomes: list[Outcome]) -> None:
        """Where the process was found changed, go on in a new one, and say which of these cases changed it: a worker
        looks at most of its process only after the last of them."""
        outcome = outcomes[-len(cases) :]
        changed = [place for place, each in enumerate(outcome) if _lasting(each)]
        if not changed:
            return
        self.renew()
        last = len(cases) - 1
        if changed[0] < last or last == 0 or self._attributions == _ATTRIBUTIONS:
            return
        self._attributions += 1
        again: list[Outcome] = []
        self._continue(cases, again, records.AUDIT_EACH)
        self.renew()
        culprit = next((place for place, each in enumerate(again) if _lasting(each)), None)
        if culprit is None:
            words = f"; after one of {len(cases)} calls, and not when they were made again"
            outcomes[-1] = replace(
                outcomes[-1], changes=tuple(replace(each, words=each.words + words) for each in outcomes[-1].changes)
            )
        elif culprit != last:
            outcomes[-1] = replace(outcomes[-1], changes=tuple(each for each in outcomes[-1].changes if not each.lasts))
            place = len(outcomes) - len(cases) + culprit
            outcomes[place] = replace(outcomes[place], changes=again[culprit].changes)

    def _find_culprits(self, cases: Sequence[Encoded], first: Ending, outcomes: list[Outcome]) -> None:
        """Run cases that were launched together one by one: nothing tells which of them ended the process."""
        start, restarts = len(outcomes), self.restarts
        for case in cases:
            ending = self._continue([case], outcomes)
            if ending is not None:
                outcomes.append(self._judge_culprit(case, ending))
        if any(outcome.status in (Status.DIED, Status.HUNG) for outcome in outcomes[start:]):
            return
        self.restarts = restarts
        if not self._is_excused(first):
            detail = f"{first} (among {len(cases)} cases launched together; each of them alone returned)"
            outcomes[start] = Outcome(self.target.id, _status(first), detail=detail)

    def _judge_culprit(self, culprit: Encoded, first: Ending) -> Outcome:
        """Run the case that had no answer again, alone, in a fresh process. Raises LostError.

        A kernel that exhausts the memory is killed from outside too, every time: that is its outcome.
        """
        before, alone = self._recent.cases, list[Outcome]()
        for _ in range(ATTEMPTS):
            again = self._continue([culprit], alone)
            if again is None or not again.from_outside:
                break
        if again is not None and again.refuses_frame:
            raise FrameError(again.said)  # by a process whose kernel was not called yet
        if again is not None:
            said = f"no answer within {self._limit:g} s, and again alone in a fresh worker (see --case-limit)"
            return Outcome(self.target.id, _status(again), detail=said if again.hung else str(again))
        why = "alone in a fresh worker it returned"
        if first.from_outside or first.hung:
            if self._comes_again([*before, culprit], first):
                why += f", but not after the {len(before)} calls before it"
            elif self._is_excused(first):
                return alone[0]
            else:
                why += f"; this came {_UNEXPLAINED} times"
        return Outcome(self.target.id, _status(first), detail=f"{first} ({why})")

    def _comes_again(self, calls: Sequence[Encoded], first: Ending) -> bool:
        """Whether a fresh process that is given these calls ends in that way too."""
        self.renew()
        again = self._continue(calls, [])
        return again is not None and (again.hung, again.code) == (first.hung, first.code)

    def _is_excused(self, ending: Ending) -> bool:
        """Whether somebody else, or a busy machine, may have ended the process: it is counted, and not too often so."""
        excused = (ending.from_outside or ending.hung) and self.restarts < _UNEXPLAINED
        self.restarts += excused
        return excused


def _status(ending: Ending) -> Status:
    return Status.HUNG if ending.hung else Status.DIED


def _lasting(outcome: Outcome) -> bool:
    """Whether the process is another one than before."""
    return any(change.lasts for change in outcome.changes)
