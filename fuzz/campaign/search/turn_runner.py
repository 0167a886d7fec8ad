"""Taking turns: a process draws the cases of a turn, has them run and judged, and reports the results."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from fuzz.campaign.search.examiner import Examined, Examiner
from fuzz.campaign.search.guide import NO_LESSONS, Guide, lessons_from, packed_lessons
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.outcome import Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Batch, Pool
from fuzz.core.execute.corners import Reserved
from fuzz.core.generate.search import SHARDS, Proposal, Search
from fuzz.core.generate.turn import BATCH, Made, Turn, is_proposed
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import ONE_IN, Entry, declared, with_twins
from fuzz.findings.tally import Observer, Sighting, Tally

FIRST, LATEST = 8, 120
"""The numbers of calls of a process to keep: the first ones, which a kernel may remember for ever, and the latest."""

FindingId = tuple[str, str]
"""The id of the target, and the digest of the failing case."""


@dataclass
class _CallsOfProcess:
    """The calls of one process, in order, without those between the first and the latest."""

    first: list[Case] = field(default_factory=list)
    latest: deque[Case] = field(default_factory=lambda: deque(maxlen=LATEST))

    def add(self, case: Case) -> None:
        if len(self.first) < FIRST:
            self.first.append(case)
        else:
            self.latest.append(case)


@dataclass
class CallLog(Observer):
    """An observer that keeps the calls before each finding that `kept` returns."""

    kept: Callable[[], Collection[FindingId]]
    _processes: dict[str, _CallsOfProcess] = field(default_factory=dict)
    _before: dict[FindingId, tuple[Case, ...]] = field(default_factory=dict)

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        """Return the known calls before a finding, in the same process."""
        return self._before.get(finding, ())

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            if judgement.verdict is Verdict.NOT_RUN:
                continue
            process = self._processes.get(judgement.target)
            if process is None:
                process = self._processes[judgement.target] = _CallsOfProcess()
            if judgement.verdict is not Verdict.PASS and judgement.verdict.is_finding:
                calls = (*process.first, *process.latest)
                # The evidence for a law is the case, which was called just before the twin that is judged here.
                broken = judgement.verdict is Verdict.FAIL_LAW
                self._before[judgement.target, judgement.case] = calls[:-1] if broken else calls
            if judgement.outcome is not None and judgement.outcome.status in (Status.DIED, Status.HUNG):
                del self._processes[judgement.target]
            else:
                process.add(case)

    def progress(self, elapsed: float) -> None:
        """Forget the calls before findings that are not kept any more, since each list holds many cases."""
        wanted = set(self.kept())
        self._before = {finding: calls for finding, calls in self._before.items() if finding in wanted}


TOGETHER = 8
"""The most turns that are run and judged together, so that they share the cost of a message to a worker and of a pass
over many cases. Measured on one emulated target: 0.78 ms a run with eight turns together, 1.04 ms with one."""
SEARCHES = 64
"""The number of latest searches whose state a process keeps: more than are in work at once."""
AHEAD = 3 * TOGETHER
"""The most turns that one process is given: workers run some while others are judged or wait."""
MATES = ((0, 3), (1, 15), (4, 31))
"""Pairs of a turn's number, counted for the same kernels, and of a count: from this turn on, so many cases follow each
case and run the same programs. They are used if a target compiles programs for each length and dtype. Measured on an
H100 without such cases: a run of RMSNorm took 32 ms for its programs and 3 ms for the rest. The first turns have few,
so that each of many ops that share a minute is judged on something."""
PIECES = 8
"""The number of pieces in which a turn is reported if programs are compiled for it, which may take seconds: a piece is
reported as soon as all of it has run."""
_TOGETHER_S = 0.4
"""The seconds that turns taken together should last, so that a search ends in time and shows progress."""


@dataclass(frozen=True)
class TurnJob:
    """One turn of a search, for one group of targets."""

    place: int
    """The turn's position in the order of the search."""
    op: str
    seed: int
    turn: Turn | int
    """A turn of a shard, or the number of a big case."""
    state: bytes = b""
    """The state of the shard for the turn's capability."""
    group: int = 0
    """The index of the group of targets that takes the turn. Group 0 has the quick ones."""
    known: int = 0
    """The number of positions, from the first on, whose lessons the turn's guide knows."""
    most: int | None = None
    """The most entries that are run, if the search ends with this turn."""
    resting: tuple[str, ...] = ()
    """The targets that run nothing, since too many of their cases hung."""
    pieces: int = 1
    """The number of pieces in which the turn is reported."""
    skip: int = 0
    """The number of pieces that were reported before, by a process that ended."""
    whole: bool = True
    """Whether the group runs all entries, and not only those that no other group can run."""

    @property
    def is_big(self) -> bool:
        """Whether the turn is a big case, which takes the oracle seconds, so that no other turn may wait for it."""
        return not isinstance(self.turn, Turn)


@dataclass
class TurnReport:
    """The results of a turn, or of a piece of it."""

    task: TurnJob
    tally: Tally = field(default_factory=Tally)
    state: bytes = b""
    """The shard's state for its next turn."""
    sightings: list[Sighting] = field(default_factory=list)
    lessons: bytes = NO_LESSONS
    """The lessons that guides learn from the turn, encoded."""
    errors: list[tuple[str, Case]] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    """A JSON object for each judged run, if records are wanted."""
    seconds: float = 0.0
    """The seconds that the process took for the turn."""
    rest: int = 0
    """The number of pieces still to be reported; the last one has the lessons."""

    @property
    def findings(self) -> set[FindingId]:
        """The findings in the report."""
        return {(each.target, each.case) for sighting in self.sightings for each in sighting.judgements}


@dataclass(frozen=True)
class SearchScope:
    """The settings that all turns of a search share. The cases of a turn follow from the whole pack, even if only some
    targets were chosen."""

    kernels: Sequence[Kernel]
    """The kernels of the whole pack."""
    laws: Sequence[str] = ()
    """The laws that the kernels of the pack declare: cases get twins for them."""
    groups: Sequence[Collection[str]] = ((),)
    """The targets of each group; the first group has the quick ones."""
    quick: int = 1
    """The number of groups of quick targets, which come first; other machines may have several."""
    twin_one_in: int = ONE_IN
    """A twin follows one case in this many."""
    slow_every: int = 24
    """Slow targets take one turn of a search in this many: their results take a hundred times as long."""
    slow_first: int = 3
    """The number of turns of each search that slow targets take first: some kernels accept few cases."""
    guided: bool = True
    """Whether turns also have relatives of earlier cases. These depend on which targets run."""
    accuracy: bool = False
    axes: bool = False
    """Whether the values of axes are counted, see `fuzz.findings.axes`."""
    records: bool = False


@dataclass
class _Drawn:
    """A turn, or a piece of one, whose cases are being run."""

    task: TurnJob
    cases: Sequence[Made]
    entries: Sequence[Entry]
    state: bytes
    judged: list[tuple[Made, Sequence[Judgement]]] = field(default_factory=list)
    """The cases that were judged, with their judgements; the pieces of a turn share the list."""
    rest: int = 0

    def pieces(self, count: int) -> Iterator[_Drawn]:
        """Yield the turn in `count` pieces, none of which begins with a twin."""
        ends = [len(self.entries) * number // count for number in range(1, count + 1)]
        start = case = 0
        for number, end in enumerate(ends):
            while end < len(self.entries) and self.entries[end].check is not None:
                end += 1
            entries = self.entries[start : max(start, end)]
            own = sum(entry.check is None for entry in entries)
            rest = count - 1 - number
            yield replace(self, entries=entries, cases=self.cases[case : case + own], rest=rest)
            start, case = max(start, end), case + own


class _Searched:
    """The state of a search in one process: its draws, lessons and guide."""

    def __init__(self, op: str, seed: int, scope: SearchScope) -> None:
        self.search = Search(op, seed, scope.kernels)
        of_op = declared(kernel for kernel in scope.kernels if kernel.op == op)
        self.laws = tuple(law for law in scope.laws if law in of_op)  # a twin for an undeclared law would show nothing
        self.lessons: list[bytes] = []
        """The known lessons of each position, in order."""
        self.latest = Guide(seed, self.search.capabilities)
        """The guide that was returned last."""
        self._learned = 0

    def guide(self, known: int) -> Guide:
        """Return a guide that knows exactly the lessons of the first `known` positions."""
        if known < self._learned:  # the turn is taken a second time
            self.latest, self._learned = Guide(self.search.seed, self.search.capabilities), 0
        for lessons in self.lessons[self._learned : known]:
            self.latest.learn(lessons_from(lessons))
        self._learned = max(known, self._learned)
        return self.latest


class TurnRunner:
    """Takes turns on a pool; turns end in the order in which they began."""

    def __init__(
        self,
        pool: Pool,
        targets: Sequence[Target],
        scope: SearchScope,
        told: Callable[[EntryJudge], None] = lambda judge: None,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Call `told` with the judge of each entry. Once `ended` returns true, leave the rest of the turn unjudged."""
        self.scope = scope
        self.kept: Collection[FindingId] = ()
        """The findings whose earlier calls may be needed, of the turns that were counted."""
        self._uncounted: deque[set[FindingId]] = deque(maxlen=SHARDS)  # a turn is counted before the shard's next one
        self.calls = CallLog(lambda: set(self.kept).union(*self._uncounted))
        self._pool = pool
        self._targets = [target for target in targets if not isinstance(pool.statuses.get(target.id), NotRun)]
        self._examiner = Examiner(pool, targets, accuracy=scope.accuracy, axes=scope.axes, told=told, ended=ended)
        self._searched: dict[tuple[str, int], _Searched] = {}
        self._begun: deque[tuple[list[_Drawn], Batch]] = deque()
        self._draw_s, self._judge_s = 0.0, _TOGETHER_S / 2
        self._reserved: dict[int, Reserved] = {}

    @property
    def on_their_way(self) -> int:
        """The number of turns that have begun and not ended."""
        return sum(len(turns) for turns, _ in self._begun)

    def next_of(self, tasks: Sequence[TurnJob]) -> Sequence[TurnJob]:
        """Return the turns to begin now; none while two batches are in work. A big case is taken alone. Turns of one
        group go together, as many as the duration of earlier ones allows."""
        if len(self._begun) > 1 or not tasks:
            return ()
        most = max(1, min(TOGETHER, int(_TOGETHER_S / (self._draw_s + self._judge_s))))
        first = tasks[0]
        alike = takewhile(lambda each: not each.is_big and each.group == first.group, tasks)
        return tasks[:1] if first.is_big or first.pieces > 1 else list(islice(alike, most))

    def searched(self, op: str, seed: int) -> _Searched:
        """Return the state of a search in this process. The states of the latest SEARCHES are kept."""
        found = self._searched.pop((op, seed), None) or _Searched(op, seed, self.scope)
        self._searched[op, seed] = found
        while len(self._searched) > SEARCHES:
            del self._searched[next(iter(self._searched))]
        return found

    def begin(self, *tasks: TurnJob) -> None:
        """Draw the cases of some turns of one group, and send them to the workers together."""
        started = time.perf_counter()
        turns = [self._drawn(task) for task in tasks]
        others = [name for number, group in enumerate(self.scope.groups) if number != tasks[0].group for name in group]
        without = {*others, *(name for task in tasks for name in task.resting)}
        together = [turns]
        if tasks[0].pieces > 1:
            together = [[each] for each in list(turns[0].pieces(tasks[0].pieces))[tasks[0].skip :]]
        for each in together:
            entries = [entry for turn in each for entry in turn.entries]
            self._begun.append((each, self._examiner.submit(entries, without)))
        self._draw_s = (time.perf_counter() - started) / len(tasks)

    def _drawn(self, task: TurnJob) -> _Drawn:
        known, cases, state = self._searched[task.op, task.seed], list[Made](), b""
        if isinstance(task.turn, Turn):
            own, state = known.search.cases(task.turn, task.state)
            targets = self._of_group(task)
            compiled = any(each.specialised for each in targets)
            mates = mates_at(task.place // len({each.kernel.capability for each in targets})) if compiled else 0
            cases += known.search.with_mates(own, task.turn, mates)
            if self.scope.guided and task.group == 0:
                turn = task.turn
                cases += known.guide(task.known).relatives(
                    task.place, lambda proposed: known.search.relatives(placed(proposed), turn)
                )
        else:
            big = known.search.big(task.turn, {target.kernel.capability for target in self._targets})
            cases += [] if big is None else [big]
        entries = with_twins([each.case for each in cases], known.laws, self.scope.twin_one_in)[: task.most]
        if not task.whole:
            entries = self._for_this_group_alone(task.group, entries)
        return _Drawn(task, cases, entries, state)

    def _of_group(self, task: TurnJob) -> Sequence[Target]:
        """Return the targets that run the turn."""
        names = self.scope.groups[task.group]
        return [each for each in self._targets if each.kernel.op == task.op and each.id in names]

    def forget(self) -> None:
        """Drop all turns that began."""
        self._begun.clear()

    def end(self) -> list[TurnReport]:
        """Wait for the turns that began first, judge them, and return their reports."""
        started = time.perf_counter()
        turns, batch = self._begun.popleft()
        found = self._examiner.examined([each.entries for each in turns], batch)
        self._judge_s = (time.perf_counter() - started) / len(turns)
        reports = [self._report(each, examined) for each, examined in zip(turns, found, strict=True)]
        return [replace(each, seconds=self._draw_s + self._judge_s) for each in reports]

    def _report(self, turn: _Drawn, found: Examined) -> TurnReport:
        task = turn.task
        report = TurnReport(task, found.tally, turn.state, found.sightings, errors=found.errors, rest=turn.rest)
        for entry, judgements in zip(turn.entries, found.judgements, strict=False):
            self.calls.judged(entry.case, judgements)
            if self.scope.records:
                from fuzz.report.records import run_lines

                origin = entry.case.origin
                # What a guide proposes follows from judgements, too: such a case has no name to repeat it by.
                name = "" if is_proposed(origin) else f"{task.seed}:{task.op}:{origin.name}"
                report.records += run_lines(entry.case, judgements, name, twin=entry.check is not None)
        self._uncounted.append(report.findings)
        self.calls.progress(0.0)
        turn.judged += _by_case(turn, found)
        if self.scope.guided and task.group == 0 and not turn.rest:
            report.lessons = packed_lessons(self._searched[task.op, task.seed].latest.lessons(turn.judged))
        return report

    def _for_this_group_alone(self, group: int, entries: Sequence[Entry]) -> list[Entry]:
        if group not in self._reserved:
            mine, others = (
                [t for t in self._targets if (t.id in self.scope.groups[group]) == own] for own in (True, False)
            )
            self._reserved[group] = Reserved(mine, others, self._pool.statuses)
        wanted = self._reserved[group]([entry.case for entry in entries])
        return [replace(entries[index], check=None) for index in wanted]


def mates_at(number: int) -> int:
    """Return how many cases follow each case of turn number `number`, counted for the same kernels."""
    return next(count for first, count in reversed(MATES) if number >= first)


def placed(proposed: Sequence[Proposal]) -> list[Proposal]:
    """Return the proposals numbered after the turn's own cases."""
    return [(draw, capability, BATCH + 1 + number) for draw, capability, number in proposed]


def _by_case(turn: _Drawn, found: Examined) -> Iterable[tuple[Made, Sequence[Judgement]]]:
    """Return the cases with their judgements, without twins."""
    own = [(entry, each) for entry, each in zip(turn.entries, found.judgements, strict=False) if entry.check is None]
    return [(made, judgements) for made, (_, judgements) in zip(turn.cases, own, strict=False)]
