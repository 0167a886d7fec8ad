"""A session: what a search, a gate, a night and a check have in common, from starting workers to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fuzz.campaign.search.executor import Crew, Engine
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import Interruption, SessionLimits, never
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.campaign.starting import executor_of, note_not_running, restarted, runnable, started
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.execute.batch import Pool
from fuzz.core.generate.pairing import PairCoverage
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, family_of
from fuzz.findings.tally import Observer, Tally
from fuzz.report import console, events
from fuzz.report.console import print_lines
from fuzz.report.events import EventLog
from fuzz.report.platforms import taken_lines
from fuzz.report.progress import Progress, judging_told
from fuzz.report.totals import UndeclaredByOp, kernels_judged, undeclared_by_op
from fuzz.report.use_outcome import NO_CASE, UseOutcome

if TYPE_CHECKING:
    from fuzz.core.execute.pool import WorkerPool
    from fuzz.report.brief import Provenance
    from fuzz.report.records import RecordLog


@dataclass
class Session:
    """The common part of a search, a gate, a night and a check. Its processes and workers run while it is entered."""

    targets: Sequence[Target]
    book: FindingBook
    scope: SearchScope
    seed: int
    limits: SessionLimits
    json: Path | None = None
    """The file for the records of judged runs."""
    jobs: int = 0
    case_limit: float | None = None
    searched: Sequence[Target] | None = None
    """The targets whose turns the processes take; by default all."""
    engine: Engine | None = None
    """The cluster that takes the turns instead of processes of this machine."""
    here: Pool | None = None
    """The pool of this very process, if kernels run in it and not in workers."""
    screen: Console | None = None
    """The console for progress; by default stderr."""
    patience: float = 0.0
    """Seconds before progress is shown for the first time."""
    tally: Tally = field(default_factory=Tally)
    interruption: Interruption = field(default_factory=Interruption)
    over: Callable[[], bool] = never
    """A function that is called repeatedly: whether the findings so far end the session."""
    tells_facts: bool = True
    """Whether the facts of platforms that are assumed are printed first."""
    longest: float | None = None
    """The most seconds of any case; by default as the limits say."""

    def __enter__(self) -> Session:
        self.out, self.err = console.results(), self.screen or console.progress()
        searched = self.targets if self.searched is None else self.searched
        most, limit = self.limits.max_cases, self.case_limit
        self.longest = self.limits.longest_case if self.longest is None else self.longest
        with ExitStack() as stack:
            # The processes come first: they are forked, which must happen before any thread is started.
            self.executor: Crew | None = None
            if self.engine is not None:
                self.executor = stack.enter_context(self.engine.executor(searched, self.scope, limit, self.longest))
            elif self.here is None:
                crew = executor_of(searched, self.scope, self.jobs, most, limit, longest=self.longest)
                self.executor = stack.enter_context(crew)
            stack.enter_context(judging_told(self.err))
            self.log = None if self.json is None else stack.enter_context(_log(self.json))
            self.pool = self.here or self._workers(stack)
            self.elsewhere = self._told(self.pool)
            if self.log is not None:
                self.log.header(self.seed, self.pool.statuses)
            for line in taken_lines(runnable(self.targets)) if self.tells_facts else ():
                self.err.print(line)
            note_not_running(self.tally, self.targets, self.pool)
            screen = console.silent() if events.wanted() else self.err
            progress = Progress(screen, self.tally, self.limits.max_time, most, self.patience)
            self._progress = stack.enter_context(progress)
            self.observers: Sequence[Observer] = (self._progress, *filter(None, [self.log]))
            self._events = EventLog(self.tally) if events.wanted() and self.book.keeps else None
            if self._events is not None:
                self._events.started(self.seed, [each.id for each in self.targets], self.limits.max_time, most)
                self.observers = (*self.observers, self._events)
            self._runners = list[Runner]()
            self._stack = stack.pop_all()
        return self

    def _told(self, pool: Pool) -> frozenset[str]:
        """Return the targets that run on other machines only; the pool marks them so, and gives them nothing."""
        if self.engine is None:
            return frozenset()
        from fuzz.core.execute.pool import WorkerPool

        if not isinstance(pool, WorkerPool):
            return frozenset()
        missing = {target.id: NotRun("it runs on no worker that takes part") for target in self.targets}
        pool.statuses = {**missing, **pool.statuses}
        idle = {name for name, status in pool.statuses.items() if isinstance(status, NotRun)}
        elsewhere = {name: told for name, told in self.engine.told.items() if name in idle}
        pool.statuses |= elsewhere
        return frozenset(elsewhere)

    def _workers(self, stack: ExitStack) -> WorkerPool:
        workers = started(
            [target for target in self.targets if not target.is_elsewhere],
            self.jobs,
            self.err,
            self.case_limit,
            longest=self.longest,
            reasons=False,
        )
        self.workers = stack.enter_context(workers)
        return self.workers

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def runner(self, targets: Sequence[Target], *, search: bool = True) -> Runner:
        """Return a runner of some targets. With `search`, the session's processes take its turns, if there are any."""
        executor = self.executor if search and self.executor is not None and self.executor.count else None
        runner = Runner(
            self.pool, targets, self.limits, self.book, executor.scope if executor else self.scope, self.observers,
            executor=executor, records=_no_lines if self.log is None else self.log.lines,
            interruption=self.interruption, tally=self.tally, over=self.over,
        )  # fmt: skip
        self._runners.append(runner)
        return runner

    def draw_no_more(self) -> None:
        """Remove the live line for good, so that other output can follow."""
        self._progress.stop()

    def stop(self) -> None:
        """Remove the live line, and kill the workers without waiting for them."""
        self.draw_no_more()
        self.workers.stop()

    def explain(self, seconds: float | None, origin: Provenance | None, *, shrinks: bool = True) -> None:
        """Run the findings again in new processes, then shrink and explain them, in `seconds` for each cause. With an
        `origin`, a terminal shows each explained failure in short while others wait."""
        from fuzz.campaign.explaining import explain_findings, note_histories

        self.draw_no_more()
        there = [bucket for bucket in self.book.seen if bucket.target in self.elsewhere and bucket.pending]
        for bucket in there:
            bucket.note = bucket.note or "seen on another machine, and not tried again here"
        with Interruption("what is known of the findings is shown") as skip:
            with self.err.status("trying what failed again, in new processes ..."):
                note_histories(self.book, self._runners, self.targets, self.case_limit, skip)
            if seconds is not None:
                explain_findings(
                    self.book, self.workers, self.targets, seconds, self.err, skip, origin, shrinks=shrinks
                )
            piles = dict[str, list[Bucket]]()
            for bucket in there:
                piles.setdefault(family_of(bucket), []).append(bucket)
            for pile in piles.values():
                if seconds is not None and shrinks and not skip.wanted:
                    self.explain_there(pile, seconds, lambda: skip.wanted)

    def explain_there(self, pile: Sequence[Bucket], seconds: float, over: Callable[[], bool]) -> None:
        """Let a worker with another processor explain findings that occur only there, in `seconds` for each cause."""
        if self.engine is not None:
            with self.err.status(f"explaining {pile[0].kernel} on a worker ..."):
                self.engine.explain(self.book, pile, seconds, over)

    def conclude(
        self, elapsed: float, pairs: Mapping[str, PairCoverage] = MappingProxyType({}), **notes: Mapping[str, Any]
    ) -> UndeclaredByOp:
        """Record the findings, the notes by kind, and the totals. Return what the kernels do not declare."""
        self.draw_no_more()
        if self.log is not None:
            self.log.findings(self.book)
        if self._events is not None:
            self._events.explained(self.book)
        undeclared = undeclared_by_op(kernels_judged(self.targets, self.tally))
        if self.log is not None:
            for kind, facts in notes.items():
                self.log.note(kind, facts)
            self.log.summary(self.tally, undeclared, elapsed, pairs)
        return undeclared

    @property
    def unsaved(self) -> tuple[str, ...]:
        """A line for each file that could not be written."""
        return tuple(filter(None, (self.book.trouble, self.log.trouble if self.log is not None else "")))

    @property
    def processes(self) -> str:
        """The processes that take the turns of searches, in words."""
        return self.executor.words if self.executor is not None else ""

    @property
    def usual(self) -> str:
        """The reason to print for a target that judged nothing and gives no reason itself."""
        if self.over():
            return "the session stopped at its first failure"
        return "the session was interrupted before its turn" if self.interruption.wanted else NO_CASE

    def tell_troubles(self, outcome: UseOutcome | None = None) -> None:
        """Print which workers were started again, and the errors and missing files of the outcome."""
        outcome = outcome or UseOutcome({}, {}, errors=tuple(self.book.errors), unsaved=self.unsaved)
        for line in (*restarted(self.workers, self.executor), *outcome.unsaved):
            print_lines(self.err, [line], style="yellow")
        for line in (*outcome.missing, *outcome.errors):
            print_lines(self.err, [line], style="bold red")


def _log(path: Path) -> RecordLog:
    from fuzz.report.records import RecordLog

    return RecordLog(path)


def _no_lines(records: Iterable[str]) -> None:
    """Write nothing: no file was asked for."""
