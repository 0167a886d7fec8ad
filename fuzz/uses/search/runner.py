"""The run loop: while the workers run one batch, the batch before it is judged."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel
from fuzz.base.outcome import Outcome
from fuzz.base.verdict import Verdict
from fuzz.execute.lane import Wait
from fuzz.execute.pool import Batch, Pool
from fuzz.execute.reach import reach_of
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Observer, Tally, TargetTally
from fuzz.generate.search import Search
from fuzz.judge.judge import EntryJudge, Judgement
from fuzz.judge.oracle_process import OracleProcess
from fuzz.judge.values import CaseOracle, Query
from fuzz.laws.registry import Entry, declared, with_twins
from fuzz.uses.search.guide import Guide, guided
from fuzz.uses.search.stopping import GRACE_S, Interruption, late

_IN_FLIGHT = 2
"""The workers hold this many batches while another is judged: enough to keep the processors busy."""
UNJUDGED_BATCHES = _IN_FLIGHT + 1
"""This many batches are drawn and not judged yet when another is drawn: those in flight, and one of which the oracle's
own process judges the values. The guide learns nothing from them in time, so there are no more than needed."""


@dataclass(frozen=True)
class Limits:
    """When a run ends; whichever comes first. With neither set it runs until it is interrupted."""

    max_time: float | None = None
    """The run ends after this many seconds."""
    max_cases: int | None = None

    def less(self, seconds: float, cases: int) -> Limits:
        """What is left of them once so much is used up."""
        time_left = None if self.max_time is None else max(self.max_time - seconds, 0.0)
        return Limits(time_left, None if self.max_cases is None else max(self.max_cases - cases, 0))


@dataclass
class Runner:
    """Runs one op's kernels on generated cases until a limit is reached."""

    pool: Pool
    targets: Sequence[Target]
    limits: Limits
    book: FindingBook
    laws: Sequence[str] = ()
    """Cases get twins by these laws: those of the whole pack, so that the choice of targets does not change the
    cases."""
    kernels: Sequence[Kernel] = ()
    """Cases are made for these kernels: those of the whole pack, so that the choice of targets does not change the
    cases. By default they are those of the targets."""
    observers: Sequence[Observer] = ()
    guided: bool = True
    """True where there are some cases more, which follow from what was judged before: these depend on which targets
    run."""
    enough: Callable[[Tally], bool] = lambda tally: False
    """It is asked before each batch of a search whether to stop early."""
    skipped: Callable[[], Collection[str]] = lambda: ()
    """It is asked before each batch which targets are not given it, such as slow ones that had their share."""
    for_all: Callable[[Sequence[Case]], Collection[int]] = lambda cases: ()
    """It is asked before each batch for the indices of the cases that skipped targets are given all the same."""
    oracle: OracleProcess | None = None
    """Values are judged there while this process does something else; without it they are judged here."""
    interruption: Interruption = field(default_factory=Interruption)
    patient: bool = False
    """True where what still runs is waited for although the time of a search is over: there is a next search."""
    clock: Callable[[], float] = time.monotonic
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._by_id: Mapping[str, Target] = {target.id: target for target in self.targets}
        self.kernels = self.kernels or tuple(dict.fromkeys(target.kernel for target in self.targets))
        ops = {target.kernel.op for target in self.targets}
        self.tally.reach = {op: reach_of(op, self.targets, self.pool.statuses) for op in ops}
        for target in self.targets:
            self.tally.targets.setdefault(target.id, TargetTally(target.id, target.kernel.name))
        for law in self.laws:
            if any(law in target.kernel.laws for target in self.targets):
                self.tally.laws.setdefault(law, 0)
        self._guide = Guide(0)
        self._laws: tuple[str, ...] = ()
        self._waiting: deque[tuple[list[Entry], Batch]] = deque()
        self._at_oracle: deque[list[EntryJudge]] = deque()
        self._sent = 0
        self._ends = (math.inf, math.inf)
        self._started = self.clock()
        self.pool.watch = self._while_waiting

    def target(self, name: str) -> Target:
        """The target of that id."""
        return self._by_id[name]

    @property
    def in_flight(self) -> int:
        """Cases of the batches that were sent and are not judged whole."""
        return sum(len(entries) for entries, _ in self._waiting) + sum(len(judges) for judges in self._at_oracle)

    def run(self, op: str, run_seed: int, share: float = 1.0) -> Tally:
        """Search until `share` of the limits is used up or a stop is wanted. What was already sent is still judged."""
        self._ends = self._end_of(share)
        self._guide = Guide(run_seed)
        # A twin by a law that no kernel of the op declares would show nothing.
        of_op = declared(kernel for kernel in self.kernels if kernel.op == op)
        self._laws = tuple(law for law in self.laws if law in of_op)
        for cases in guided(Search(op, run_seed, self.kernels), self._guide if self.guided else None):
            if not self._take(cases):
                break
        self._drain()
        self._ends = (math.inf, math.inf)
        return self.tally

    def replay(self, batches: Iterable[list[Entry]]) -> Tally:
        """Run given entries, whatever the limits, until a stop is wanted. A twin follows its case in one batch."""
        for entries in batches:
            if self.interruption.wanted:
                break
            self._submit(entries)
            while len(self._waiting) > _IN_FLIGHT:
                self._judge_oldest()
        self._drain()
        return self.tally

    def _end_of(self, share: float) -> tuple[float, float]:
        """The clock reading and the number of cases at which a search that may use `share` of the limits stops."""
        seconds = math.inf if self.limits.max_time is None else self.limits.max_time * share
        cases = math.inf if self.limits.max_cases is None else math.ceil(self.limits.max_cases * share)
        return self.clock() + seconds, self._sent + cases

    def _take(self, cases: list[Case]) -> bool:
        """Send a batch, and judge the oldest; False where the search is to end before it."""
        until, last = self._ends
        entries = with_twins(cases, self._laws)
        entries = entries[: int(min(last - self._sent, len(entries)))]
        if not entries or self.clock() >= until or self.interruption.wanted or self.enough(self.tally):
            return False
        self._submit(entries)
        self._sent += len(entries)
        while len(self._waiting) > _IN_FLIGHT:
            self._judge_oldest()
        return True

    def _while_waiting(self, waits: Sequence[Wait]) -> Collection[str]:
        """Tells the observers, and returns the targets that hold up the end of the search."""
        for observer in self.observers:
            observer.waiting(waits, self.clock() - self._started)
        return late(self._is_overdue)(waits)

    def _is_overdue(self) -> bool:
        """True where a stop was wanted, or the time was over, some moments ago."""
        return self.interruption.overdue or (not self.patient and self.clock() >= self._ends[0] + GRACE_S)

    def _submit(self, entries: list[Entry]) -> None:
        cases = [entry.case for entry in entries]
        batch = self.pool.submit(cases, self.skipped(), self.for_all(cases))
        self._waiting.append((entries, batch))

    def _drain(self) -> None:
        while self._waiting:
            self._judge_oldest()
        if self._at_oracle:
            self._judge_answered()

    def _judge_oldest(self) -> None:
        """Judge the batch that was sent first. With a process for the oracle it is asked about that batch now, and the
        batch before is judged by its answers."""
        entries, batch = self._waiting[0]
        judges = self._judges(entries, batch.outcomes())
        self._waiting.popleft()
        if self.oracle is not None:
            self.oracle.learn()
            self.oracle.ask(self._queries(judges))
        self._at_oracle.append(judges)
        if len(self._at_oracle) > (0 if self.oracle is None else 1):
            self._judge_answered()

    def _judge_answered(self) -> None:
        """Judge the oldest of the batches that ran; the oracle's process, where there is one, has answered for it."""
        if self.oracle is not None and len(self._at_oracle) == 1:
            self.oracle.learn()  # else it was asked about the next one already, and so has answered
        for judge in self._at_oracle[0]:
            self._judge(judge)
        self._at_oracle.popleft()
        for observer in self.observers:
            observer.progress(self.clock() - self._started)

    def _judges(self, entries: Sequence[Entry], outcomes: Sequence[Mapping[str, Outcome]]) -> list[EntryJudge]:
        judges: list[EntryJudge] = []
        for entry, ran in zip(entries, outcomes, strict=True):
            contracts = dict.fromkeys(self._by_id[target].numerics for target in ran)
            judges.append(EntryJudge(entry, ran, judges[-1] if judges else None, contracts))
        return judges

    def _queries(self, judges: Sequence[EntryJudge]) -> Mapping[CaseOracle, Sequence[Query]]:
        """What judging these will ask the oracle; a second run of the same case has the same oracle."""
        asked: dict[CaseOracle, dict[Query, None]] = {}
        for judge in judges:
            targets = [self._by_id[target] for target in judge.outcomes]
            asked.setdefault(judge.oracle, {}).update(dict.fromkeys(judge.queries(targets)))
        return {oracle: tuple(queries) for oracle, queries in asked.items()}

    def _judgement(self, judge: EntryJudge, target: Target) -> Judgement:
        """An error of ours over one target's outcome loses nothing of the others; the book says it at the end."""
        try:
            return judge.judge(target)
        except Exception as error:
            case = judge.entry.case
            reason = self.book.note_error(error, case)
            return Judgement(target.id, case.digest, Verdict.ORACLE_GAVE_UP, reason=reason)

    def _judge(self, judge: EntryJudge) -> None:
        entry, case = judge.entry, judge.entry.case
        judgements = [self._judgement(judge, self._by_id[target]) for target in judge.outcomes]
        self.tally.cases += 1
        if entry.check is not None and judge.checked:
            self.tally.laws[entry.check.name] += len(judge.checked)
        ran = [judgement.target for judgement in judgements if judgement.verdict is not Verdict.NOT_RUN]
        if ran:
            self.tally.cover(case, ran)
        for judgement in judgements:
            self.tally.targets[judgement.target].add(case, judgement)
        found = [judgement for judgement in judgements if judgement.verdict.is_finding]
        if found:
            everyone = {judgement.target: judgement.verdict.value for judgement in judgements}
            for judgement in found:
                kernel = self._by_id[judgement.target].kernel.name
                self.book.add(kernel, judge.evidence(judgement), judgement, everyone)
        # Batches are judged in the order and at the distance of their sending: no clock decides what the guide knows.
        for observer in (self._guide, *self.observers):
            observer.judged(case, judgements)
