"""Taking turns: a process draws the cases of a turn, has them executed and judged, and reports what came of them."""

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
from fuzz.core.generate.turn import BATCH, Made, Turn
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import ONE_IN, Entry, declared, with_twins
from fuzz.findings.tally import Observer, Sighting, Tally

FIRST, LATEST = 8, 120
"""How many calls of a process are kept: the first ones, which a kernel may remember for ever, and the latest."""

FindingId = tuple[str, str]
"""The target, and the digest of the failing case."""


@dataclass
class _CallsOfProcess:
    """The calls of one process, in order; those in the middle are forgotten."""

    first: list[Case] = field(default_factory=list)
    latest: deque[Case] = field(default_factory=lambda: deque(maxlen=LATEST))

    def add(self, case: Case) -> None:
        if len(self.first) < FIRST:
            self.first.append(case)
        else:
            self.latest.append(case)


@dataclass
class CallLog(Observer):
    """An observer that keeps the earlier calls of the findings that `kept` returns."""

    kept: Callable[[], Collection[FindingId]]
    _processes: dict[str, _CallsOfProcess] = field(default_factory=dict)
    _before: dict[FindingId, tuple[Case, ...]] = field(default_factory=dict)

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        """Return the calls before that finding, as far as they are known."""
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
                # A law's evidence is the case, which was called right before the twin judged here.
                broken = judgement.verdict is Verdict.FAIL_LAW
                self._before[judgement.target, judgement.case] = calls[:-1] if broken else calls
            if judgement.outcome is not None and judgement.outcome.status in (Status.DIED, Status.HUNG):
                del self._processes[judgement.target]
            else:
                process.add(case)

    def progress(self, elapsed: float) -> None:
        """Forget the earlier calls of findings that nobody keeps: each list holds many cases."""
        wanted = set(self.kept())
        self._before = {finding: calls for finding, calls in self._before.items() if finding in wanted}


TOGETHER = 8
"""At most this many turns are executed and judged together, so that they share the cost of a message to a worker and of
a pass over many cases. Measured on one emulated target: 0.78 ms a run with eight at a time, 1.04 with one."""
SEARCHES = 64
"""The number of searches whose state a process keeps, the latest ones: more than are handed out at once."""
AHEAD = 3 * TOGETHER
"""At most this many turns are given to one process: workers run some while others are judged or wait."""
MATES = ((0, 3), (1, 15), (4, 31))
"""Pairs (from which turn for the same kernels on, how many cases follow each one which the same programs run), used
where some target's programs are compiled for each length and dtype. Measured on an H100 without such cases: a run of
RMSNorm took 32 ms for its programs and 3 for the rest. The first turns have few, so that of many ops that share a
minute each is judged on something."""
PIECES = 8
"""A turn is reported in this many pieces where programs are compiled for it. Some take seconds to compile, and a piece
can be reported once all of it has run."""
_TOGETHER_S = 0.4
"""Turns that take more seconds are taken fewer at a time, so that a search can end in time and show its progress."""


@dataclass(frozen=True)
class TurnJob:
    """One turn of a search, for one group of targets."""

    place: int
    """Its position in the order of the search."""
    op: str
    seed: int
    turn: Turn | int
    """A turn of a shard, or the number of a big case."""
    state: bytes = b""
    """The shard's state for the turn's capability."""
    group: int = 0
    """The group of targets that takes it. Group 0 are the quick ones."""
    known: int = 0
    """Its guide knows the lessons of this many positions, the first ones."""
    most: int | None = None
    """At most this many of its entries are run, where the search ends with them."""
    resting: tuple[str, ...] = ()
    """Targets that are given nothing, since their cases hung too often."""
    pieces: int = 1
    """The number of pieces in which it is reported."""
    skip: int = 0
    """How many of them were reported already, by a process that ended."""
    whole: bool = True
    """Whether its group is given all entries, and not only those that no other group can take."""

    @property
    def is_big(self) -> bool:
        """Whether it is a case that takes the oracle seconds: no turn shall wait for it."""
        return not isinstance(self.turn, Turn)


@dataclass
class TurnReport:
    """What came of a turn."""

    task: TurnJob
    tally: Tally = field(default_factory=Tally)
    state: bytes = b""
    """The shard's state for its next turn."""
    sightings: list[Sighting] = field(default_factory=list)
    lessons: bytes = NO_LESSONS
    """What the guides learn from it, packed."""
    errors: list[tuple[str, Case]] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    """A JSON object for each judged run, where they are wanted."""
    seconds: float = 0.0
    """The time that its process took for it."""
    rest: int = 0
    """How many further pieces of the turn will be reported; the last one has the lessons."""

    @property
    def findings(self) -> set[FindingId]:
        """The findings in it."""
        return {(each.target, each.case) for sighting in self.sightings for each in sighting.judgements}


@dataclass(frozen=True)
class Terms:
    """What all turns of a run have in common. The cases of a turn follow from the whole pack, whatever targets were
    chosen."""

    kernels: Sequence[Kernel]
    """The kernels of the whole pack."""
    laws: Sequence[str] = ()
    """The laws of the whole pack, by which cases get twins."""
    groups: Sequence[Collection[str]] = ((),)
    """The targets of each group; the first group has the quick ones."""
    quick: int = 1
    """The number of groups of quick targets, the first ones; other machines may have them."""
    twin_one_in: int = ONE_IN
    """One case in this many gets a twin."""
    slow_every: int = 24
    """Slow targets are given one turn of a search in this many: a result takes them a hundred times as long."""
    slow_first: int = 3
    """Slow targets are given this many turns of each search first: some kernels take few cases."""
    guided: bool = True
    """Whether turns also have cases that follow from earlier judgements. These depend on which targets run."""
    accuracy: bool = False
    records: bool = False


@dataclass
class _Drawn:
    """A turn whose cases are being run."""

    task: TurnJob
    cases: Sequence[Made]
    entries: Sequence[Entry]
    state: bytes
    judged: list[tuple[Made, Sequence[Judgement]]] = field(default_factory=list)
    """Its cases, each with its judgements; the pieces of one turn share the list."""
    rest: int = 0

    def pieces(self, count: int) -> Iterator[_Drawn]:
        """Yield it in `count` pieces, none of which begins with a twin."""
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
    """A search as one process knows it: its draws and its guide."""

    def __init__(self, op: str, seed: int, terms: Terms) -> None:
        self.search = Search(op, seed, terms.kernels)
        of_op = declared(kernel for kernel in terms.kernels if kernel.op == op)
        self.laws = tuple(law for law in terms.laws if law in of_op)  # undeclared laws would show nothing
        self.lessons: list[bytes] = []
        """The lessons of each position, in order, as far as they are known here."""
        self.latest = Guide(seed, self.search.capabilities)
        """The guide returned last; it knows only judged positions."""
        self._learned = 0

    def guide(self, known: int) -> Guide:
        """Return a guide that has exactly the lessons of the first `known` positions."""
        if known < self._learned:  # a turn that is taken again
            self.latest, self._learned = Guide(self.search.seed, self.search.capabilities), 0
        for lessons in self.lessons[self._learned : known]:
            self.latest.learn(lessons_from(lessons))
        self._learned = max(known, self._learned)
        return self.latest


class TurnRunner:
    """Takes turns on a pool. They end in the order in which they began."""

    def __init__(
        self,
        pool: Pool,
        targets: Sequence[Target],
        terms: Terms,
        told: Callable[[EntryJudge], None] = lambda judge: None,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """`told` hears of each entry as it is judged. What is left of turns once `ended` is true is not judged."""
        self.terms = terms
        self.kept: Collection[FindingId] = ()
        """The findings whose earlier calls may be asked for, as far as they are counted yet."""
        self._uncounted: deque[set[FindingId]] = deque(maxlen=SHARDS)  # a turn counts before the shard's next one
        self.calls = CallLog(lambda: set(self.kept).union(*self._uncounted))
        self._pool = pool
        self._targets = [target for target in targets if not isinstance(pool.statuses.get(target.id), NotRun)]
        self._examiner = Examiner(pool, targets, accuracy=terms.accuracy, told=told, ended=ended)
        self._searched: dict[tuple[str, int], _Searched] = {}
        self._begun: deque[tuple[list[_Drawn], Batch]] = deque()
        self._draw_s, self._judge_s = 0.0, _TOGETHER_S / 2
        self._reserved: dict[int, Reserved] = {}

    @property
    def on_their_way(self) -> int:
        """The number of turns that began and did not end."""
        return sum(len(turns) for turns, _ in self._begun)

    def next_of(self, tasks: Sequence[TurnJob]) -> Sequence[TurnJob]:
        """Return the turns to begin with now; none while some wait to be judged and others run. A big case is taken
        alone. Turns of one group go together, as many as the time of the last ones allows."""
        if len(self._begun) > 1 or not tasks:
            return ()
        most = max(1, min(TOGETHER, int(_TOGETHER_S / (self._draw_s + self._judge_s))))
        first = tasks[0]
        alike = takewhile(lambda each: not each.is_big and each.group == first.group, tasks)
        return tasks[:1] if first.is_big or first.pieces > 1 else list(islice(alike, most))

    def searched(self, op: str, seed: int) -> _Searched:
        """Return the search of that op and seed, for a turn of it. The state of the last SEARCHES is kept."""
        found = self._searched.pop((op, seed), None) or _Searched(op, seed, self.terms)
        self._searched[op, seed] = found
        while len(self._searched) > SEARCHES:
            del self._searched[next(iter(self._searched))]
        return found

    def begin(self, *tasks: TurnJob) -> None:
        """Draw the cases of turns for one group, and send them to the workers together."""
        started = time.perf_counter()
        turns = [self._drawn(task) for task in tasks]
        others = [name for number, group in enumerate(self.terms.groups) if number != tasks[0].group for name in group]
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
            if self.terms.guided and task.group == 0:
                turn = task.turn
                cases += known.guide(task.known).relatives(
                    task.place, lambda proposed: known.search.relatives(placed(proposed), turn)
                )
        else:
            big = known.search.big(task.turn, {target.kernel.capability for target in self._targets})
            cases += [] if big is None else [big]
        entries = with_twins([each.case for each in cases], known.laws, self.terms.twin_one_in)[: task.most]
        if not task.whole:
            entries = self._for_this_group_alone(task.group, entries)
        return _Drawn(task, cases, entries, state)

    def _of_group(self, task: TurnJob) -> Sequence[Target]:
        """Return the targets that the turn is for."""
        names = self.terms.groups[task.group]
        return [each for each in self._targets if each.kernel.op == task.op and each.id in names]

    def forget(self) -> None:
        """Wait for no turn that began."""
        self._begun.clear()

    def end(self) -> list[TurnReport]:
        """Wait for the turns that began first, and judge them."""
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
            if self.terms.records:
                from fuzz.report.records import run_lines

                name = f"{task.seed}:{task.op}:{entry.case.origin.place}"
                report.records += run_lines(entry.case, judgements, name, twin=entry.check is not None)
        self._uncounted.append(report.findings)
        self.calls.progress(0.0)
        turn.judged += _by_case(turn, found)
        if self.terms.guided and task.group == 0 and not turn.rest:
            report.lessons = packed_lessons(self._searched[task.op, task.seed].latest.lessons(turn.judged))
        return report

    def _for_this_group_alone(self, group: int, entries: Sequence[Entry]) -> list[Entry]:
        if group not in self._reserved:
            mine, others = (
                [t for t in self._targets if (t.id in self.terms.groups[group]) == own] for own in (True, False)
            )
            self._reserved[group] = Reserved(mine, others, self._pool.statuses)
        wanted = self._reserved[group]([entry.case for entry in entries])
        return [replace(entries[index], check=None) for index in wanted]


def mates_at(number: int) -> int:
    """Return how many cases follow each of the turn with that number among those for the same kernels."""
    return next(count for first, count in reversed(MATES) if number >= first)


def placed(proposed: Sequence[Proposal]) -> list[Proposal]:
    """Return relatives with numbers that follow those of the turn's own cases."""
    return [(draw, capability, BATCH + 1 + number) for draw, capability, number in proposed]


def _by_case(turn: _Drawn, found: Examined) -> Iterable[tuple[Made, Sequence[Judgement]]]:
    """Yield each case with its judgements, without twins."""
    own = [(entry, each) for entry, each in zip(turn.entries, found.judgements, strict=False) if entry.check is None]
    return [(made, judgements) for made, (_, judgements) in zip(turn.cases, own, strict=False)]
