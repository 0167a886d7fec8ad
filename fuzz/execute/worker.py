"""A worker: the process of one target, kept alive whatever its kernel does."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.adapters.target import Attestation, Program, Target, Unavailable
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome, Status
from fuzz.transport.frames import FrameError, outcome_of
from fuzz.transport.process import EndedError, Ending, Process

Encoded = tuple[Case, bytes]
"""A case and its bytes in the protocol."""

ATTEMPTS = 3
"""A worker that is killed from outside is tried this many times."""


class LostError(Exception):
    """The worker cannot be started again. The message says why."""


class Worker:
    """Runs cases on one target. Each case gets an outcome, even when the process dies or cannot be restarted.

    `limit` is in seconds per case. All methods but `stop` belong to one thread.
    """

    def __init__(self, target: Target, program: Program, limit: float) -> None:
        self.target = target
        self.restarts = 0
        """processes replaced after a death from outside, or a hang, that did not happen again."""
        self._program = program
        self._limit = limit
        self._process: Process | None = None
        self._lost: str | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        process = self._process
        return process.pid if process is not None else None

    def start(self) -> Attestation:
        """Start the process and check what it is. Raises LostError, FrameError or AttestationError."""
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
        """One outcome per case, in order. Raises FrameError or AttestationError: internal errors."""
        outcomes: list[Outcome] = []
        try:
            while len(outcomes) < len(cases):
                ending = self._continue(cases[len(outcomes) :], outcomes)
                rest = cases[len(outcomes) :]
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

    def _continue(self, cases: Sequence[Encoded], outcomes: list[Outcome]) -> Ending | None:
        """Run `cases` until they are done (None) or the process ends. Raises LostError."""
        if self._process is None:
            self.start()
        assert self._process is not None
        responses = self._process.exchange([encoded for _, encoded in cases])
        try:
            for (case, _), response in zip(cases, responses, strict=True):
                outcomes.append(outcome_of(response, case, self.target.id))
        except EndedError as error:
            self._process = None
            return error.ending
        except FrameError:
            self._process.close()
            self._process = None
            raise
        return None

    def _find_culprits(self, cases: Sequence[Encoded], first: Ending, outcomes: list[Outcome]) -> None:
        """Run cases that were launched together one by one: nothing tells which of them ended the process."""
        start, restarts = len(outcomes), self.restarts
        for case in cases:
            ending = self._continue([case], outcomes)
            if ending is not None:
                outcomes.append(self._judge_culprit(case, ending))
        lived = all(outcome.status not in (Status.DIED, Status.HUNG) for outcome in outcomes[start:])
        if lived and (first.from_outside or first.hung):
            self.restarts = restarts + 1
        elif lived:
            detail = f"{first} (among {len(cases)} cases launched together; each of them alone returned)"
            outcomes[start] = Outcome(self.target.id, Status.DIED, detail=detail)

    def _judge_culprit(self, culprit: Encoded, first: Ending) -> Outcome:
        """Run the case that had no answer again, alone, in a fresh process. Raises LostError.

        A kernel that exhausts the memory is killed from outside too, every time: that is its outcome.
        """
        alone: list[Outcome] = []
        for _ in range(ATTEMPTS):
            again = self._continue([culprit], alone)
            if again is None or not again.from_outside:
                break
        if again is not None:
            if again.hung:
                detail = f"no answer within {self._limit:g} s, and again alone in a fresh worker (see --case-limit)"
                return Outcome(self.target.id, Status.HUNG, detail=detail)
            return Outcome(self.target.id, Status.DIED, detail=str(again))
        if first.from_outside or first.hung:
            self.restarts += 1
            return alone[0]
        return Outcome(self.target.id, Status.DIED, detail=f"{first} (alone in a fresh worker it returned)")
