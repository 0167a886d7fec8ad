"""Processes that take the turns of a search, and the messages between them and it."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.errors import InternalError
from fuzz.execute.lane import Wait
from fuzz.execute.pool import WorkerPool
from fuzz.uses.search.calls import FindingId
from fuzz.uses.search.crew import Watch, silent
from fuzz.uses.search.member import be_member
from fuzz.uses.search.taker import AHEAD, Report, Task, Terms
from fuzz.uses.search.wire import Ask, Calls, Cut, Failed, Start, Started, Take, Taken, Waiting, answer, packed

MOST_DEATHS = 3
"""A turn in which so many processes ended is given up: it would end a fourth one too."""
MEMORY_LIMIT = 2 << 30
"""A process that has more bytes than this is replaced once its turns have ended. A usual one has a tenth of it; the
largest cases of a search take half."""
LATEST_SEEN = 4096
"""The number of latest failing runs that are remembered with their process: more than 63 turns usually have."""
_FORK = multiprocessing.get_context("fork")
"""It inherits what is imported here, and kernels that no file could name. A new interpreter would take half a second to
come as far."""


@dataclass(eq=False)
class _Member:
    """A process, and what it was sent."""

    group: int
    process: BaseProcess
    connection: Connection
    tasks: deque[Task] = field(default_factory=deque)
    """Those on their way, in the order in which they end."""
    search: tuple[str, int] = ("", 0)
    told: int = 0
    """The number of places of that search that have taught it."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    waits: Sequence[Wait] = ()
    started: bool = False
    """Whether its workers are there."""
    retires: bool = False

    @property
    def is_free(self) -> bool:
        """Whether it may be given more: what is behind a big case would wait for it."""
        return not self.retires and not any(task.is_big for task in self.tasks)


@dataclass
class Processes:
    """Processes, each with its workers; a context manager. It must be entered before threads are started: a lock that
    another thread holds while a process is forked would be held in it for ever.

    A process that ends is replaced, and the turns that it had not reported are taken again: a report is whole or not
    at all.
    """

    targets: Sequence[Target]
    terms: Terms
    sizes: Sequence[int]
    """The number of processes of each group of `terms`."""
    make_pool: Callable[[Sequence[Target]], WorkerPool]
    """A pool that is not entered."""
    deaths: int = 0
    """Processes that ended although nobody here ended them."""
    given_up: list[str] = field(default_factory=list)
    """Turns that ended a process every time."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why a target has no worker in some process."""
    most_bytes: int = 0
    """The most memory that any process has had."""

    def __post_init__(self) -> None:
        self.watch: Watch = silent
        self._members: list[_Member] = []
        self._lessons: Sequence[bytes] = ()
        self._kept: Collection[FindingId] = ()
        self._seen_by: dict[FindingId, _Member] = {}
        self._failed: Counter[tuple[str, int, int, int]] = Counter()
        self._restarts: Counter[str] = Counter()
        self._untaken: deque[Report] = deque()
        self._asked = False

    def __enter__(self) -> Processes:
        for group, size in enumerate(self.sizes):
            for _ in range(size):
                self._members.append(self._forked(group))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in self._members:
            self._end(member)

    @property
    def count(self) -> int:
        """How many processes there are."""
        return len(self._members)

    @property
    def pids(self) -> Sequence[int]:
        """The process ids."""
        return [member.process.pid for member in self._members if member.process.pid is not None]

    @property
    def restarts(self) -> Mapping[str, int]:
        """Workers that were replaced although their kernel did nothing wrong, by target."""
        found = Counter(self._restarts)
        for member in self._members:
            found.update(member.restarts)
        return found

    def ready(self, seconds: float) -> bool:
        if not self._asked:
            self._asked = True
            for member in self._members:
                self._send(member, Start())
        awaited = [member for member in self._members if member.group == 0] or self._members
        if not all(member.started for member in awaited):
            report = self._next(seconds)  # one of slow targets, from the op before
            if report is not None:
                self._untaken.append(report)
        return all(member.started for member in awaited) or self.deaths >= MOST_DEATHS * len(self._members)

    def room(self, group: int) -> int:
        return sum(AHEAD - len(each.tasks) for each in self._members if each.group == group and each.is_free)

    def give(self, task: Task, lessons: Sequence[bytes]) -> None:
        self._lessons = lessons
        free = [each for each in self._members if each.group == task.group and each.is_free]
        self._give(min(free, key=lambda each: len(each.tasks)), task)

    def take(self, seconds: float) -> Report | None:
        until = time.monotonic() + seconds
        while not self._untaken:
            report = self._next(max(0.0, until - time.monotonic()))
            if report is not None or time.monotonic() >= until:
                return report
        return self._untaken.popleft()

    def _next(self, seconds: float) -> Report | None:
        """What the next process says within so many seconds, if that is a report."""
        ready = wait([each.connection for each in self._members], seconds)
        self.watch([each for member in self._members for each in member.waits])
        if not ready:
            return None
        return self._received(next(each for each in self._members if each.connection is ready[0]))

    def cut(self) -> None:
        for member in self._members:
            if member.tasks:
                self._send(member, Cut())

    def drop(self) -> None:
        for member in [each for each in self._members if each.tasks]:
            member.tasks.clear()
            self._replace(member)

    def keep(self, findings: Collection[FindingId]) -> None:
        self._kept = findings
        if len(self._seen_by) > 2 * LATEST_SEEN:  # the latest may not be counted yet, and so not be kept
            latest = set(list(self._seen_by)[-LATEST_SEEN:])
            self._seen_by = {each: by for each, by in self._seen_by.items() if each in findings or each in latest}

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        member = self._seen_by.get(finding)
        if member is None or member not in self._members or member.tasks:
            return ()
        with suppress(OSError, EOFError):
            member.connection.send_bytes(packed(Ask(finding)))
            while True:
                said = answer(member.connection.recv_bytes())
                if isinstance(said, Calls):
                    return tuple(said.cases)
        return ()

    def _forked(self, group: int) -> _Member:
        ours, theirs = _FORK.Pipe()
        others = [ours, *(each.connection for each in self._members)]
        mine = [target for target in self.targets if target.id in self.terms.groups[group]]
        process = _FORK.Process(
            target=be_member, args=(theirs, others, mine, self.terms, self.make_pool), name="shards", daemon=True
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; these wait, or are of NumPy's linear algebra, which prepares for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        return _Member(group, process, ours)

    def _send(self, member: _Member, message: Start | Cut | Take) -> None:
        with suppress(OSError):  # that it has ended is seen when it is waited for
            member.connection.send_bytes(packed(message))

    def _give(self, member: _Member, task: Task) -> None:
        search = task.op, task.seed
        if member.search != search:
            member.search, member.told = search, 0
        kept = [finding for finding in self._kept if self._seen_by.get(finding) is member]
        lessons = list(self._lessons[member.told : task.known])
        member.told = max(member.told, task.known)
        member.tasks.append(task)
        self._send(member, Take(task, lessons, kept))

    def _received(self, member: _Member) -> Report | None:
        """What a process has said. Raises InternalError where it came upon an error of ours."""
        try:
            said = answer(member.connection.recv_bytes())
        except (EOFError, OSError):
            self._died(member)
            return None
        if isinstance(said, Failed):
            raise InternalError(f"{said.error}\n{said.trace}")
        member.waits = said.waits if isinstance(said, Waiting) else ()
        if isinstance(said, Started):
            self.missing |= said.missing
            member.started = True
        return self._reported(member, said) if isinstance(said, Taken) else None

    def _reported(self, member: _Member, said: Taken) -> Report:
        member.restarts, report = said.restarts, said.report
        self.most_bytes = max(self.most_bytes, said.resident)
        member.retires = member.retires or said.resident > MEMORY_LIMIT
        member.tasks.popleft()
        self._seen_by.update(dict.fromkeys(report.findings, member))
        if member.retires and not member.tasks:
            self._replace(member)
        return report

    def _died(self, member: _Member) -> None:
        """Replace a process that has ended, and have its turns taken again."""
        self.deaths += 1
        tasks, first = list(member.tasks), True
        fresh = self._replace(member)
        for task in tasks:
            self._failed[task.op, task.seed, task.place, task.group] += first
            first = False
            if self._failed[task.op, task.seed, task.place, task.group] >= MOST_DEATHS:
                self.given_up.append(f"{task.op}, seed {task.seed}, {task.turn}")
                self._untaken.append(Report(task, state=task.state))
                continue
            self._give(fresh, task)

    def _replace(self, member: _Member) -> _Member:
        self._end(member)
        self._restarts.update(member.restarts)
        fresh = self._forked(member.group)
        self._members[self._members.index(member)] = fresh
        if self._asked:
            self._send(fresh, Start())
        return fresh

    def _end(self, member: _Member) -> None:
        member.connection.close()
        if member.tasks:
            member.process.terminate()
        member.process.join(1.0)
        if member.process.is_alive():
            member.process.kill()
            member.process.join()
