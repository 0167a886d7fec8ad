"""The loop of a search: an executor takes the turns of a search, and the runner counts their reports in order; and the
search of several ops one after another, and how their targets are spread over processes."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz.campaign.search.examiner import Examiner
from fuzz.campaign.search.executor import Executor, SerialExecutor
from fuzz.campaign.search.schedule import LEAST_LAG, LEAST_ON_THEIR_WAY, MOST_LAG, OpShares, Pace, Schedule
from fuzz.campaign.search.stopping import GRACE_S, Interruption, SessionLimits, late, never
from fuzz.campaign.search.turn_runner import PIECES, CallLog, FindingId, SearchScope, TurnReport
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.errors import AwayError
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Batch, Pool, Wait
from fuzz.core.execute.corners import corners_of, has_corners
from fuzz.core.generate.search import Search
from fuzz.core.generate.turn import BATCH
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import Entry
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import LATE, Observer, Sighting, Tally, TargetTally
from oracles import escalation
from oracles.ops import OPS

MOST_HANGS = 3
"""The number of hanging cases after which a target gets no more in a session: each takes twice the limit of a
case, and others wait. Chosen: one may be an accident, and three are enough to learn a rule."""
_LOOK_S = 0.25
"""Seconds between two looks at the clock: often enough for a live line, and cheap."""
_DROPPED_S = 3.0
"""Seconds without a report, after which the turns of a process that was told to end are dropped: it met an internal
error or judges a very large case."""


@dataclass
class Runner:
    """Runs kernels on generated cases, or on given entries, until a limit is reached, and counts the results."""

    pool: Pool
    """The pool that runs given entries and, without an executor, the turns of searches."""
    targets: Sequence[Target]
    limits: SessionLimits
    book: FindingBook
    scope: SearchScope | None = None
    """The scope of the executor. By default, cases are made for the kernels of the targets, without twins."""
    observers: Sequence[Observer] = ()
    enough: Callable[[Tally], bool] = lambda tally: False
    """A function that is called after each turn of a search: whether to end the search."""
    over: Callable[[], bool] = never
    """A function that is called as often: whether to stop at once, even between given entries."""
    skipped: Callable[[], Collection[str]] = lambda: ()
    """A function that is called before each batch of given entries: which targets to leave out, such as slow ones."""
    executor: Executor | None = None
    """The executor for the turns of a search; without one, this process takes them, for all targets."""
    records: Callable[[Iterable[str]], None] = lambda records: None
    """A function that is given the records of judged runs, if `scope` asks for records."""
    begun: Callable[[], None] = lambda: None
    """A function that is called once other processes have the first turns of a search."""
    asked_for: Callable[[], Collection[FindingId]] | None = None
    """A function that returns the findings whose earlier calls may be needed; by default, all that the book keeps."""
    interruption: Interruption = field(default_factory=Interruption)
    resting: Collection[str] = ()
    """The targets that run no turn of a search for now."""
    patient: bool = False
    """Whether slow targets continue with their turns after the time of a search, because another search follows."""
    clock: Callable[[], float] = time.monotonic
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._by_id: Mapping[str, Target] = {target.id: target for target in self.targets}
        self.book.targets = {**self.book.targets, **self._by_id}
        self._scope = self.scope or SearchScope(tuple(dict.fromkeys(target.kernel for target in self.targets)))
        if self.executor is None:
            self._scope = replace(self._scope, groups=([target.id for target in self.targets],))
        self._statuses = self.pool.statuses
        ops = {target.kernel.op for target in self.targets}
        self.tally.corners = {op: corners_of(op, self.targets, self._statuses) for op in ops}
        self.tally.threads = max(self.tally.threads, self.pool.threads)
        ways = [way for target in self.targets for way in target.kernel.never]
        ways += [way if len(ops) == 1 else f"{way} of {op}" for op in sorted(ops) for way in OPS[op].too_short]
        self.tally.never = tuple(dict.fromkeys([*self.tally.never, *ways]))
        for target in self.targets:
            self.tally.targets.setdefault(target.id, TargetTally(target.id, target.kernel.name))
        for law in self._scope.laws:
            if any(law in target.kernel.laws for target in self.targets):
                self.tally.laws.setdefault(law, 0)
        self._executor: Executor = self.executor or SerialExecutor(self.pool, self.targets, self._scope)
        self._executor.watch = self._tell_waiting
        self._calls = CallLog(self._kept)
        self._hangs: Counter[str] = Counter()
        self._courses: dict[tuple[str, int], Schedule] = {}
        self._shares = OpShares({}, 1)
        self._on_their_way: Counter[int] = Counter()
        self._big = 0  # the number of big cases among them
        self._ends = math.inf
        self._began, self._taken = 0.0, 0
        self._started = self.clock()
        self.pool.watch = self._while_waiting

    def target(self, name: str) -> Target:
        """Return the target with this id."""
        return self._by_id[name]

    @property
    def in_flight(self) -> int:
        """The number of turns of quick targets that have not ended."""
        return self._on_their_way[0]

    def before(self, judgement: Judgement) -> tuple[Case, ...]:
        """Return the known earlier calls, in the same process, of a finding that the book keeps."""
        finding = judgement.target, judgement.case
        return self._calls.before(finding) or self._executor.before(finding)

    def run(self, op: str, run_seed: int, share: float = 1.0) -> Tally:
        """Search until `share` of the limits is used up or a stop is wanted; turns that began by then are still judged.
        The time begins when all workers have started, since starting dozens takes longer than the share of an op."""
        return self.run_beside([op], run_seed, share)

    def run_beside(self, ops: Sequence[str], run_seed: int, share: float = 1.0) -> Tally:
        """Search several ops as `run` does one, several at a time: see `OpShares`."""
        self.wait_for_workers()
        seconds = math.inf if self.limits.max_time is None else self.limits.max_time * share
        self._began, self._taken = self.clock(), 0
        self._ends = self._began + seconds
        runs = {target.kernel.op for target in self.targets if self._runs(target)}
        self._courses = {key: each for key, each in self._courses.items() if each.slow_left}
        schedules = [self._schedule(op, run_seed, share) for op in ops if op in runs]
        compiled = len(schedules) > 1 and any(target.shares for target in self.targets if target.kernel.op in ops)
        self._shares = OpShares({each.op: len(each.chosen) for each in schedules}, self._executor.count, compiled)
        with escalation.until(self._is_overdue):
            self._take_turns(schedules)
        self._ends = math.inf
        return self.tally

    def _take_turns(self, schedules: Sequence[Schedule]) -> None:
        begun = False
        while not self._is_over(schedules):
            self._give(schedules)
            if not self._on_their_way.total():
                break  # the counted search is at its end
            if not begun:
                begun = True
                self.begun()
            self._take()
        for schedule in schedules:
            schedule.stop()
        self._finish(schedules)

    def wait_for_workers(self) -> None:
        """Wait until all workers have started, or a stop is wanted. The time of a search begins afterwards."""
        while not self.interruption.wanted and not self._executor.ready(_LOOK_S):
            pass

    def run_entries(self, batches: Iterable[list[Entry]], *, known: bool = True) -> Tally:
        """Run given entries, whatever the limits, until a stop is wanted. A twin must be in one batch with its case.
        Cases that were drawn for this session are not `known`."""
        examiner = Examiner(self.pool, self.targets, accuracy=self._scope.accuracy, axes=self._scope.axes)
        ahead = list[tuple[list[Entry], Batch]]()
        for entries in batches:
            if self.interruption.wanted or self.over():
                break
            ahead.append((entries, examiner.submit(entries, self.skipped())))
            if len(ahead) > 1:
                self._examined(*ahead[0], examiner, known)
                del ahead[0]
        for entries, batch in ahead:
            self._examined(entries, batch, examiner, known)
        return self.tally

    def _schedule(self, op: str, seed: int, share: float) -> Schedule:
        cases = math.inf if self.limits.max_cases is None else math.ceil(self.limits.max_cases * share)
        here = [target for target in self.targets if target.kernel.op == op and self._runs(target)]
        quick, *slow = ([t for t in here if t.id in group] for group in self._scope.groups)
        corners = [has_corners(group, quick, self._statuses) for group in slow]
        chosen = {target.kernel.capability for target in here}
        compiled = any(target.specialised for target in here)
        schedule = Schedule(
            Search(op, seed, self._scope.kernels), op, seed, chosen, cases, corners, self._scope.slow_every,
            self._scope.slow_first, timed=self.limits.max_time is not None, quick=self._scope.quick,
            pieces=PIECES if compiled else 1, least_lag=MOST_LAG if compiled else LEAST_LAG,
        )  # fmt: skip
        self._courses[op, seed] = schedule
        return schedule

    def _runs(self, target: Target) -> bool:
        return not isinstance(self._statuses.get(target.id), NotRun)

    def _is_over(self, schedules: Sequence[Schedule]) -> bool:
        counted = all(schedule.done and not schedule.slow_left for schedule in schedules)
        if self.over():
            self._ends = min(self._ends, self.clock())
        return counted or self.clock() >= self._ends or self.interruption.wanted or self.enough(self.tally)

    def _give(self, schedules: Sequence[Schedule]) -> None:
        """Hand out as many turns as possible now."""
        by_op = {each.op: each for each in schedules}
        resting = (*self.resting, *(target for target, count in self._hangs.items() if count >= MOST_HANGS))
        self._executor.keep(self._kept())
        most = self._in_time()
        for group in range(len(self._scope.groups)):
            while self._executor.room(group) > 0 and (group or self.in_flight < most):
                ready = ((by_op[op].next_task(group), by_op[op]) for op in self._in_turn(group))
                task, schedule = next((found for found in ready if found[0] is not None), (None, None))
                if task is None or schedule is None:
                    break
                self._executor.give(replace(task, resting=resting) if resting else task, schedule.lessons)
                self._shares.paces[task.op].begun += 1
                self._on_their_way[group] += 1
                self._big += task.is_big

    def _in_turn(self, group: int) -> Sequence[str]:
        return self._shares.by_time() if group else self._shares.in_turn(self._ends - self.clock(), self.in_flight)

    def _in_time(self) -> float:
        """Return how many turns of quick targets may be in work: as many as will probably end in time, at the present
        pace, since the search waits for them."""
        if self._ends == math.inf:
            return math.inf
        now = self.clock()
        pace = self._taken / (now - self._began) if now > self._began else 0.0
        return max(LEAST_ON_THEIR_WAY * self._executor.count, pace * (self._ends - now))

    def _take(self) -> None:
        """Wait a moment for a report, and count all reports that can be counted now."""
        try:
            report = self._executor.take(_LOOK_S)
        except AwayError as error:  # earlier results are kept and reported
            self.book.errors.append(str(error))
            self._on_their_way.clear()
            self._big = 0
            self.interruption.stop()
            return
        if report is None:
            return
        pace = self._shares.paces.get(report.task.op, Pace())  # slow targets may still have turns of an earlier search
        pace.seconds += report.seconds
        if not report.rest:
            self._on_their_way[report.task.group] -= 1
            self._taken += report.task.group == 0
            pace.ended += 1
            self._big -= report.task.is_big
        schedule = self._courses.get((report.task.op, report.task.seed))
        if schedule is None or self.over():
            return
        for each in schedule.joined(report):
            self._count(each)
            if self.enough(self.tally) or self.over():
                schedule.close()
                return

    def _finish(self, schedules: Sequence[Schedule]) -> None:
        """Wait for the turns that were handed out, but not for long."""
        since = self.clock()
        while self.in_flight or (not self.patient and self._on_their_way.total()):
            if self._is_overdue():
                self._executor.cut()
            allowed = GRACE_S if self.in_flight == self._big else GRACE_S + _DROPPED_S
            if self._is_overdue() and self.clock() >= since + allowed:
                self._executor.drop()
                self._on_their_way.clear()
                self._big = 0
                break
            self._take()
        for schedule in schedules:
            for report in schedule.late():
                self._count(report)

    def _kept(self) -> Collection[FindingId]:
        return self.book.kept() if self.asked_for is None else self.asked_for()

    def _count(self, report: TurnReport) -> None:
        if report.task.group:
            report.tally.cases = 0  # the report of the quick targets counts them
        with self.interruption.shielded():
            for words, case in report.errors:
                self.book.note_error(words, case)
            self._note(report.tally, report.sightings)
        self.records(report.records)
        for observer in self.observers:
            observer.progress(self.clock() - self._started)

    def _note(self, more: Tally, sightings: Iterable[Sighting]) -> None:
        self.tally.add(more)
        for each in sightings:
            for judgement in each.judgements:
                kernel, elapsed = self._by_id[judgement.target].kernel.name, self.clock() - self._started
                self.book.add(kernel, each.case, judgement, each.verdicts)
                for observer in self.observers:
                    observer.failed(kernel, each.case, judgement, elapsed)
                self._hangs[judgement.target] += judgement.verdict is Verdict.TIMEOUT
        for observer in self.observers:
            observer.counted(more)

    def _examined(self, entries: Sequence[Entry], batch: Batch, examiner: Examiner, known: bool) -> None:
        [found] = examiner.examined([entries], batch)
        with self.interruption.shielded():
            for words, case in found.errors:
                self.book.note_error(words, case)
            for entry, judgements in zip(entries, found.judgements, strict=True):
                self._calls.judged(entry.case, judgements)
                for observer in self.observers:
                    observer.judged(entry.case, judgements)
            found.tally.known = found.tally.cases if known else 0
            self._note(found.tally, found.sightings)
        self._calls.progress(0.0)
        for observer in self.observers:
            observer.progress(self.clock() - self._started)

    def _tell_waiting(self, waits: Sequence[Wait]) -> None:
        for observer in self.observers:
            observer.waiting(waits, self.clock() - self._started)

    def _while_waiting(self, waits: Sequence[Wait]) -> Collection[str]:
        """Tell the observers, and return the targets that delay the end of the search."""
        self._tell_waiting(waits)
        return late(self._is_overdue)(waits)

    def _is_overdue(self) -> bool:
        """Whether a stop was wanted, or the time ended, more than a moment ago."""
        return self.interruption.overdue or (not self.patient and self.clock() >= self._ends + GRACE_S)


_PROCESSES_PER_GROUP = 4
"""The number of processes of quick targets for each process of slow ones, which have few turns."""
_PROCESSES_PER_WATCHED = 1
"""The same ratio if sanitizers watch some of the slow targets: each takes ten seconds to start, and a second a case."""
_PROCESS_BYTES = 300 << 20
"""The bytes of memory of one process of a search. Measured: 180 MB, and more with large cases."""
_MOST_WITH_DEVICE = 2
"""The most processes of a search if each target on a GPU has a process of its own, or if the GPU's free memory is
unknown. Each takes half a gigabyte of the GPU's memory for its context alone, and a pack has dozens of kernels."""
_CONTEXT_BYTES = 1 << 30
"""The GPU memory of a process that several targets share: its context, and the tensors of one frame of cases, which
torch keeps."""
_WORKER_BYTES = (12 << 20, 200 << 20)
"""The bytes of a worker of compiled code, and of a Python worker with torch, most of whose memory is shared."""
_SHARED_BYTES = 1 << 30
"""The bytes of main memory of a process that targets on a GPU share."""


@dataclass
class EndsSoonAfter:
    """Ends a search `cases` cases after the first finding that `found` reports. A failing run should end soon, but
    until then a smaller case may be found."""

    found: Callable[[Tally], object]
    cases: int
    last: float = math.inf
    """The number of cases at which the search ends; inf before the first finding."""

    def __call__(self, tally: Tally) -> bool:
        if self.last == math.inf and self.found(tally):
            self.last = tally.cases + self.cases
        return tally.cases >= self.last


@dataclass
class CountedSchedule:
    """Skips slow targets except for one batch in `slow_every`. It counts batches, not time, so that the same seed gives
    the same cases to the same targets."""

    slow: frozenset[str]
    slow_every: int
    batches: int = 0

    def __call__(self) -> frozenset[str]:
        number, self.batches = self.batches, self.batches + 1
        return self.slow if number % self.slow_every else frozenset()


def slow_targets_of(targets: Collection[Target]) -> frozenset[str]:
    """Return the targets that are so slow that others would wait for them; an empty set if all are slow."""
    slow = frozenset(target.id for target in targets if target.slow)
    return slow if len(slow) < len(targets) else frozenset()


def groups_of(targets: Sequence[Target], processes: int) -> tuple[tuple[str, ...], ...]:
    """Return the targets by groups, each run by its own processes: the quick ones, then groups of slow ones. A slow
    group has at most one sanitizer, so that its targets can share workers. Slow groups take turns of their own, as many
    as they have time for, so that the quick ones never wait for them."""
    slow = slow_targets_of(targets)
    by_tool: dict[str, list[str]] = {}
    for target in targets:
        if target.id in slow:
            by_tool.setdefault(target.sanitizer, []).append(target.id)
    others_each = _PROCESSES_PER_WATCHED if any(by_tool) else _PROCESSES_PER_GROUP
    most = max(1, processes // others_each // max(1, len(by_tool)))
    striped = [tuple(names[k::most]) for names in by_tool.values() for k in range(min(most, len(names)))]
    return tuple(target.id for target in targets if target.id not in slow), *striped


def processes_for(targets: Sequence[Target], jobs: int, max_cases: int | None) -> int:
    """Return the number of processes for a search of these targets: one per processor unless `jobs` gives it, but no
    more than there are turns for, or than fit into the memory of the machine and of its GPUs."""
    wanted = jobs or len(os.sched_getaffinity(0))
    if max_cases is not None:
        wanted = min(wanted, math.ceil(max_cases / BATCH))
    here = [target for target in targets if target.unavailable() is None]
    on_device = [target for target in here if target.sanitizable or target.sanitizer]
    if on_device:
        from fuzz.core.adapters.cuda import free_device_memory

        free = free_device_memory() if all(target.shares for target in on_device) else ()
        tools = {target.sanitizer for target in on_device}
        contexts = min(2, len(tools)) if "" in tools else len(tools)  # each has one for watched targets beside it
        fit = sum(each // (contexts * _CONTEXT_BYTES) for each in free)
        wanted = min(wanted, fit if free else _MOST_WITH_DEVICE)
    return max(1, wanted if jobs else min(wanted, free_memory() // _memory_of(here)))


def _memory_of(targets: Sequence[Target]) -> int:
    """Return the bytes that one process and its workers may take."""
    own = sum(_WORKER_BYTES[target.costly] for target in targets if not target.shares)
    return _PROCESS_BYTES + own + _SHARED_BYTES * any(target.shares for target in targets)


def free_memory() -> int:
    """Return the bytes of available memory, as Linux reports them."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
    return kib << 10


def search_ops(runner: Runner, seed: int) -> None:
    """Search every op that something runs. Where cases are counted, one op after another has a share of them in
    proportion to how many different capabilities its kernels have, since a turn is for one of them. Otherwise each has
    such a share of the time: see `OpShares`."""
    limits, statuses = runner.limits, runner.pool.statuses
    kernels = [t.kernel for t in runner.targets if not isinstance(statuses.get(t.id), NotRun)]
    turns = {op: len(capabilities_of(kernels, op)) for op in sorted({kernel.op for kernel in kernels})}
    runner.wait_for_workers()
    if limits.max_cases is None:
        runner.run_beside(list(turns), seed)
        for op in turns:
            note_late(runner.tally, runner.targets, op)
        runner.tally.note_waiting()
        return
    began, to_come = time.monotonic(), sum(turns.values())
    for op, own in turns.items():
        if runner.over():
            break
        runner.limits = limits.less(time.monotonic() - began, runner.tally.cases)
        runner.run(op, seed, share=own / to_come)
        to_come -= own
        if runner.limits.max_time is not None:
            note_late(runner.tally, runner.targets, op)
    runner.tally.note_waiting()


def note_late(tally: Tally, targets: Sequence[Target], op: str) -> None:
    """Note why slow targets of the op had no turn."""
    slow = slow_targets_of([target for target in targets if target.kernel.op == op])
    for line in map(tally.targets.__getitem__, slow):
        if not (line.judged or line.not_run or line.not_run_reason):
            line.not_run_reason = LATE
