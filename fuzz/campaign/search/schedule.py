"""The schedule of one search: which turn comes next, which lessons its guide may know, and in which order turns count;
and which of the ops that are searched together is given the next turn, and for how long.

Many processes take turns, which end in any order. The number of earlier turns that a turn knows depends only on its
position, and if cases are counted, turns count in the order of the search. So the cases, the verdicts and the end of a
counted search are the same for any number of processes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuzz.campaign.search.turn_runner import TurnJob, TurnReport, TurnRunner
from fuzz.core.base.capability import Capability
from fuzz.core.generate.search import SHARDS, Search
from fuzz.core.generate.turn import BATCH, Turn

LEAST_LAG = 8
"""The number of preceding turns for which a turn never waits: two processes have that many in hand."""
MOST_LAG = SHARDS - 1
"""The number of turns after which a shard has its next one, which must know the state after the last."""
_WAITING = 256
"""The most turns that wait for a group of slow targets. In a search that ends by time, older ones are left out."""


def known_at(place: int, least_lag: int = LEAST_LAG) -> int:
    """Return how many turns must be judged before the turn at `place` is drawn: all before it except the last quarter,
    or except the last 63. If a guide waited for more, processors would be idle; if it waited for fewer, it would learn
    late."""
    return max(0, place - min(MOST_LAG, max(least_lag, place // 4)))


def in_order(search: Search, chosen: Collection[Capability], *, big_first: bool = False) -> Iterator[Turn | int]:
    """Yield the turns of a search for the chosen capabilities, without end. A big case comes after a fixed number of
    turns or, with `big_first`, as soon as possible."""
    big = deque((due.place if big_first else due.after, due.number) for due in search.big_series)
    for number, turn in enumerate(search.turns(chosen)):
        while big and big[0][0] <= number:
            yield big.popleft()[1]
        yield turn


def one_by_one(
    turn_runner: TurnRunner, op: str, seed: int, most: float = math.inf, *, big_first: bool = False
) -> Iterator[TurnReport]:
    """Yield the reports of a search whose turns this process takes one after another. The cases are the same as in a
    search with many processes."""
    known, states = turn_runner.searched(op, seed), dict[tuple[int, Capability], bytes]()
    search = known.search
    for place, turn in enumerate(in_order(search, search.capabilities, big_first=big_first)):
        shard = (turn.shard, search.capability(turn)) if isinstance(turn, Turn) else None
        state = states.get(shard, b"") if shard is not None else b""
        turn_runner.begin(
            TurnJob(place, op, seed, turn, state, known=known_at(place), most=None if most == math.inf else int(most))
        )
        (report,) = turn_runner.end()
        known.lessons.append(report.lessons)
        if shard is not None:
            states[shard] = report.state
        most -= report.tally.cases
        yield report
        if most <= 0:
            return


@dataclass
class Schedule:
    """The schedule of one search; `joined` puts its reports in order."""

    search: Search
    op: str
    seed: int
    chosen: Collection[Capability]
    """The capabilities for which there are turns."""
    most: float = math.inf
    """The number of entries after which the search ends."""
    corners: Sequence[bool] = ()
    """For each group of slow targets, whether it alone can visit some corners. Each turn is searched for cases of
    these."""
    slow_every: int = 24
    slow_first: int = 3
    """Slow targets take this many turns first, then one turn in `slow_every`."""
    quick: int = 1
    """The number of groups, from the first one on, that take every turn."""
    pieces: int = 1
    """The number of reports for each turn, unless cases are counted."""
    least_lag: int = LEAST_LAG
    """The number of preceding turns for which a turn never waits."""
    timed: bool = False
    """Whether the search ends by time, so that slow targets may leave turns out."""
    lessons: list[bytes] = field(default_factory=list)
    """The lessons of all joined positions, in order."""
    entries: int = 0
    """The number of entries that were judged and count."""
    done: bool = False
    """Whether all reports that count are joined."""

    def __post_init__(self) -> None:
        self._steps = in_order(self.search, self.chosen)
        self._next = 0
        self._states: dict[tuple[int, Capability], bytes] = {}
        self._ended: dict[int, TurnReport] = {}
        self._again: deque[TurnJob] = deque()
        self._slow: dict[int, deque[TurnJob]] = {group + 1: deque() for group in range(len(self.corners))}
        self._slow_out = 0
        self._closed = False

    @property
    def is_counted(self) -> bool:
        """Whether the search ends after a number of cases. Only then do big cases have positions in its order."""
        return self.most < math.inf

    @property
    def _share(self) -> int | None:
        """The most entries of each turn, if the search has no room for a whole turn of each capability: kernels that
        take less than others would get no case."""
        share = math.ceil(self.most / max(len(self.chosen), 1)) if self.is_counted else BATCH
        return share if share < BATCH else None

    def next_task(self, group: int = 0) -> TurnJob | None:
        """Return the next turn for a group of targets; None if there is none now."""
        if group:
            waiting = self._slow[group]
            if not waiting or waiting[0].place >= len(self.lessons):
                return None  # the search may still end before this turn
            self._slow_out += 1
            return waiting.popleft()
        if self._again:
            return self._again.popleft()
        if self.done or known_at(self._next, self.least_lag) > len(self.lessons) or self._next >= self._most_turns:
            return None
        place, turn = self._next, next(self._steps)
        if not isinstance(turn, Turn) and not self.is_counted:
            return TurnJob(
                place, self.op, self.seed, turn
            )  # it has no position in the order, so that no turn waits seconds for it
        self._next += 1
        state = self._states.get(self._key(turn), b"") if isinstance(turn, Turn) else b""
        pieces = 1 if self.is_counted else self.pieces
        most = self._share if isinstance(turn, Turn) else None
        task = TurnJob(
            place, self.op, self.seed, turn, state, known=known_at(place, self.least_lag), most=most, pieces=pieces
        )
        self._queue_for_slow(task)
        return task

    def joined(self, report: TurnReport) -> Iterator[TurnReport]:
        """Yield the reports that count once this report has come. If cases are counted they come in the order of the
        search; otherwise each counts at once, so that a hanging case delays no other."""
        if report.task.group:
            self._slow_out -= not report.rest
            yield report
            return
        if not self.is_counted:
            yield report
            if report.rest or not isinstance(report.task.turn, Turn):
                return
        self._ended[report.task.place] = report
        while not self.done and len(self.lessons) in self._ended:
            first = self._ended.pop(len(self.lessons))
            left = self.most - self.entries
            if first.tally.cases > left:
                self._again.append(replace(first.task, most=int(left)))
                return
            self._join(first)
            if self.is_counted:
                yield first

    def late(self) -> Iterable[TurnReport]:
        """Return the reports that came out of order before a counted search was stopped. They count all the same."""
        found = [] if self._closed or not self.is_counted else [self._ended[place] for place in sorted(self._ended)]
        self._ended.clear()
        return found

    @property
    def slow_left(self) -> bool:
        """Whether slow targets have turns to take, or in work."""
        return self._slow_out > 0 or any(queue and queue[0].place < len(self.lessons) for queue in self._slow.values())

    @property
    def _most_turns(self) -> float:
        """The position before which the search ends: each turn has at least BATCH entries or its share, unless it is a
        big case."""
        if not self.is_counted:
            return math.inf
        return len(self.lessons) + math.ceil((self.most - self.entries) / (self._share or BATCH))

    def stop(self) -> None:
        """Hand out no further turn."""
        self.done = True
        for waiting in self._slow.values():
            waiting.clear()

    def close(self) -> None:
        """Hand out and count nothing more."""
        self.stop()
        self._closed = True

    def _key(self, turn: Turn) -> tuple[int, Capability]:
        return turn.shard, self.search.capability(turn)

    def _queue_for_slow(self, task: TurnJob) -> None:
        whole = task.place < self.slow_first or task.place % self.slow_every == 0
        for group, waiting in self._slow.items():
            if not whole and group >= self.quick and not self.corners[group - 1]:
                continue
            waiting.append(replace(task, group=group, whole=whole or group < self.quick))
            if self.timed and len(waiting) > _WAITING:
                waiting.popleft()

    def _join(self, report: TurnReport) -> None:
        task = report.task
        self.lessons.append(report.lessons)
        self.entries += report.tally.cases
        if isinstance(task.turn, Turn):
            self._states[self._key(task.turn)] = report.state
        if self.entries >= self.most:
            self.done = self._closed = True
            for waiting in self._slow.values():
                kept = [each for each in waiting if each.place <= task.place]
                waiting.clear()
                waiting.extend(replace(each, most=task.most) if each.place == task.place else each for each in kept)


LEAST_ON_THEIR_WAY = 2
"""At least this many turns per process are handed out, at any pace: one is judged while the next one runs."""
_MOST_COMPILED = 3
"""At most this many turns per process are handed out if programs are compiled for them. Which op is next is decided
when a turn is handed out, from what earlier turns took."""
_STINT_S = 5.0
"""Without a limit of time, an op keeps its processes for this many seconds for each of its capabilities, then others
have them. Chosen: five times what a process needs to read an op."""
_FIRST_TURN_S = 1.0
"""The assumed seconds of a turn before any has ended."""


@dataclass
class Pace:
    """The turns of one op: how many began and ended, and how many seconds they took."""

    begun: int = 0
    ended: int = 0
    seconds: float = 0.0
    rounds: int = 0
    """How often the op has had its share of the time."""

    @property
    def on_their_way(self) -> int:
        """The number of turns that have begun and not ended."""
        return self.begun - self.ended

    @property
    def expected(self) -> float:
        """The seconds that processes have spent on the op, and will spend on the turns that have begun."""
        return self.seconds + self.on_their_way * (self.seconds / self.ended if self.ended else _FIRST_TURN_S)


@dataclass
class OpShares:
    """The shares of the ops in the time of the processes. Reading an op takes a process about a second, and a minute
    may be shared by fifty ops, so that no more ops are searched at once than there are processes. Each op keeps its
    processes until it has had its share of the time."""

    weights: Mapping[str, int]
    """The ops, in the order in which they begin, with the number of capabilities that share each op's time."""
    processes: int
    compiled: bool = False
    """Whether turns wait seconds for programs to be compiled. Then all ops are searched at once, the one with the least
    time first: some compile while others run."""
    paces: Mapping[str, Pace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paces = {op: Pace() for op in self.weights}

    def in_turn(self, seconds: float, on_their_way: int) -> Sequence[str]:
        """Return the ops that may be given a turn, first the one with the fewest on their way. `seconds` are left by
        the clock, infinite where no limit is set. An op that is not due begins only if a process would be idle."""
        if self.compiled:
            return self.by_time() if on_their_way < _MOST_COMPILED * self.processes else ()
        left = self._left(seconds * self.processes)
        # An op begins on the process of one that has had its share and whose last turns have ended.
        ending = sum(pace.on_their_way > 0 for op, pace in self.paces.items() if op not in left)
        count = max(1, self.processes - ending)
        due = sorted(left[:count], key=lambda op: self.paces[op].on_their_way)
        if on_their_way >= LEAST_ON_THEIR_WAY * self.processes:
            return due
        return [*due, *left[count:], *(op for op in self.weights if op not in left)]

    def by_time(self) -> Sequence[str]:
        """Return all ops, first the one that had the least time."""
        return sorted(self.weights, key=lambda op: self.paces[op].expected)

    def _left(self, to_come: float) -> Sequence[str]:
        """Return the ops that have not had their share of the time in this round, at least one."""
        now = min(pace.rounds for pace in self.paces.values())
        left = [op for op, pace in self.paces.items() if pace.rounds == now]
        share = (to_come + sum(self.paces[op].seconds for op in left)) / sum(self.weights[op] for op in left)
        each = (now + 1) * _STINT_S if share == math.inf else share
        done = [op for op in left if self.paces[op].expected >= each * self.weights[op]]
        for op in done:
            self.paces[op].rounds += 1
        return [op for op in left if op not in done] or self.by_time()


def fittest(queues: Sequence[tuple[int, bool]]) -> int:
    """Return the number of the process that takes a turn. Of each one `queues` say how many turns it has, and whether
    it has read the op. The one with the fewest turns of those that have read it takes the turn, unless another process
    would be idle."""
    fewest = min(turns for turns, _ in queues)
    most = fewest + LEAST_ON_THEIR_WAY if fewest < LEAST_ON_THEIR_WAY else math.inf
    return min(range(len(queues)), key=lambda each: (not queues[each][1] or queues[each][0] >= most, queues[each][0]))
