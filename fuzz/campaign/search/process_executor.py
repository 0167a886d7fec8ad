"""The executor that takes the turns of a search in other processes, which it forks, replaces and ends."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from fuzz.campaign.search.executor import Watch, silent
from fuzz.campaign.search.schedule import fittest
from fuzz.campaign.search.search_process import resident, run_search_process
from fuzz.campaign.search.turn_runner import AHEAD, SEARCHES, FindingId, SearchScope, TurnJob, TurnReport
from fuzz.campaign.search.wire import (
    Calls,
    CallsRequest,
    Cut,
    Failed,
    Start,
    Take,
    TurnTaken,
    Waiting,
    WorkersStarted,
    answer,
    packed,
)
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.errors import InternalError, UsageError
from fuzz.core.execute.batch import Wait
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport.python.programs import Programs, programs_in

MOST_DEATHS = 3
"""A turn is given up after this many processes ended in it, since further ones would end too."""
MEMORY_LIMIT = 2 << 30
"""A process with more bytes than this is replaced after its turns. A usual one has a tenth of this; with the largest
cases of a search it has half."""
LATEST_SEEN = 4096
"""The number of latest failing runs whose process is remembered: 63 turns usually have fewer."""
_T = TypeVar("_T")
_FORK = multiprocessing.get_context("fork")
"""The way to start processes: they inherit the imported modules, and kernels that are in no file. A new interpreter
would take half a second."""


@dataclass(eq=False)
class _Process:
    """A process of the executor, and the turns that it was given."""

    group: int
    handle: BaseProcess
    connection: Connection
    tasks: deque[TurnJob] = field(default_factory=deque)
    """The turns that it has not reported, in the order in which they will end."""
    told: dict[tuple[str, int], int] = field(default_factory=dict)
    """The number of positions whose lessons the process has, by search."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    waits: Sequence[Wait] = ()
    started: bool = False
    """Whether the workers of the process have started."""
    retires: bool = False

    @property
    def is_free(self) -> bool:
        """Whether the process may be given more turns. Turns behind a big case would wait for it."""
        return not self.retires and not any(task.is_big for task in self.tasks)


@dataclass
class ProcessExecutor:
    """A context manager of processes, each with its own workers. Enter it before any thread is started: a lock that a
    thread holds during the fork would stay locked in the process for ever. A process that ends is replaced, and the
    turns that it had not reported are taken again; a report counts as a whole or not at all."""

    targets: Sequence[Target]
    scope: SearchScope
    sizes: Sequence[int]
    """The number of processes of each group in `scope`."""
    make_pool: Callable[[Sequence[Target]], WorkerPool]
    """A function that returns a pool, which is not entered yet."""
    devices: Sequence[str] = ()
    """The GPUs over which the processes are spread, if there are several."""
    programs: Path | None = None
    """The file to which workers add the programs that they compile. It is read and deleted at the end."""
    made: Programs | None = None
    """The contents of that file."""
    deaths: int = 0
    """The number of processes that ended by themselves."""
    given_up: list[str] = field(default_factory=list)
    """Turns that ended a process each time they were tried."""
    missing: dict[str, str] = field(default_factory=dict)
    """The reasons why targets have no worker in some process, by target."""
    most_bytes: int = 0
    """The largest memory of any process, in bytes."""

    def __post_init__(self) -> None:
        self.watch: Watch = silent
        self._processes: list[_Process] = []
        self._lessons: dict[tuple[str, int], Sequence[bytes]] = {}
        self._kept: Collection[FindingId] = ()
        self._seen_by: dict[FindingId, _Process] = {}
        self._failed: Counter[tuple[str, int, int, int]] = Counter()
        self._restarts: Counter[str] = Counter()
        self._untaken: deque[TurnReport] = deque()
        self._asked = False

    def __enter__(self) -> ProcessExecutor:
        for group, size in enumerate(self.sizes):
            for _ in range(size):
                self._processes.append(self._forked(group, len(self._processes)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            self._end(process)
        if self.programs is not None:
            self.made = programs_in(self.programs)
            self.programs.unlink()

    @property
    def count(self) -> int:
        """The number of processes."""
        return len(self._processes)

    @property
    def words(self) -> str:
        """A phrase like '2 processes, 183 MB each at most, and 120 MB in the main one'."""
        processes = f"{self.count} process{'es' if self.count != 1 else ''}"
        on = f" on {len(self.devices)} GPUs" if len(self.devices) > 1 else ""
        made = f", {self.made}" if self.made is not None and self.made.count else ""
        most = f"{self.most_bytes / 1e6:,.0f} MB{' each' if self.count != 1 else ''} at most"
        return f"{processes}{on}, {most}, and {resident() / 1e6:,.0f} MB in the main one{made}"

    @property
    def pids(self) -> Sequence[int]:
        """The process ids."""
        return [process.handle.pid for process in self._processes if process.handle.pid is not None]

    @property
    def restarts(self) -> Mapping[str, int]:
        """By target, the number of workers that were replaced although their kernel did nothing wrong."""
        found = Counter(self._restarts)
        for process in self._processes:
            found.update(process.restarts)
        return found

    def ready(self, seconds: float) -> bool:
        if not self._asked:
            self._asked = True
            for process in self._processes:
                self._send(process, Start())
        awaited = [process for process in self._processes if process.group == 0] or self._processes
        if not all(process.started for process in awaited):
            report = self._next(seconds)  # it may be one of slow targets, from the op searched before
            if report is not None:
                self._untaken.append(report)
        return all(process.started for process in awaited) or self.deaths >= MOST_DEATHS * len(self._processes)

    def room(self, group: int) -> int:
        return sum(AHEAD - len(each.tasks) for each in self._processes if each.group == group and each.is_free)

    def give(self, task: TurnJob, lessons: Sequence[bytes]) -> None:
        _remember(self._lessons, (task.op, task.seed), lessons, SEARCHES * len(self._processes))
        free = [each for each in self._processes if each.group == task.group and each.is_free]
        queues = [(len(each.tasks), (task.op, task.seed) in each.told) for each in free]
        self._give(free[fittest(queues)], task)

    def take(self, seconds: float) -> TurnReport | None:
        until = time.monotonic() + seconds
        while not self._untaken:
            report = self._next(max(0.0, until - time.monotonic()))
            if report is not None or time.monotonic() >= until:
                return report
        return self._untaken.popleft()

    def _next(self, seconds: float) -> TurnReport | None:
        """Return the next message of a process within `seconds`, if it is a report."""
        ready = wait([each.connection for each in self._processes], seconds)
        self.watch([each for process in self._processes for each in process.waits])
        if not ready:
            return None
        return self._received(next(each for each in self._processes if each.connection is ready[0]))

    def cut(self) -> None:
        for process in self._processes:
            if process.tasks:
                self._send(process, Cut())

    def drop(self) -> None:
        for process in [each for each in self._processes if each.tasks]:
            process.tasks.clear()
            self._replace(process)

    def keep(self, findings: Collection[FindingId]) -> None:
        self._kept = findings
        if len(self._seen_by) > 2 * LATEST_SEEN:  # the latest may not be counted yet, and so not kept
            latest = set(list(self._seen_by)[-LATEST_SEEN:])
            self._seen_by = {each: by for each, by in self._seen_by.items() if each in findings or each in latest}

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        process = self._seen_by.get(finding)
        if process is None or process not in self._processes or process.tasks:
            return ()
        with suppress(OSError, EOFError):
            process.connection.send_bytes(packed(CallsRequest(finding)))
            while True:
                said = answer(process.connection.recv_bytes())
                if isinstance(said, Calls):
                    return tuple(said.cases)
        return ()

    def _forked(self, group: int, number: int) -> _Process:
        """Fork process number `number`, for a group of targets."""
        ours, theirs = _FORK.Pipe()
        others = [ours, *(each.connection for each in self._processes)]
        mine = [target for target in self.targets if target.id in self.scope.groups[group]]
        process = _FORK.Process(
            target=run_search_process,
            args=(theirs, others, mine, self.scope, self.make_pool, self._device(number)),
            name="shards",
            daemon=True,
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of threads. Ours only wait, and NumPy's linear algebra prepares its own for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            # JAX warns of its threads too. They wait where a reference was traced, and no forked process calls JAX.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            process.start()
        theirs.close()
        return _Process(group, process, ours)

    def _device(self, number: int) -> str:
        """Return the GPU of process number `number`; '' for any."""
        return self.devices[number % len(self.devices)] if len(self.devices) > 1 else ""

    def _send(self, process: _Process, message: Start | Cut | Take) -> None:
        with suppress(OSError):  # a process that has ended is noticed when the executor waits for it
            process.connection.send_bytes(packed(message))

    def _give(self, process: _Process, task: TurnJob) -> None:
        search = task.op, task.seed
        told = process.told.pop(search, 0)
        kept = [finding for finding in self._kept if self._seen_by.get(finding) is process]
        lessons = list(self._lessons[search][told : task.known])
        _remember(process.told, search, max(told, task.known), SEARCHES)
        process.tasks.append(task)
        self._send(process, Take(task, lessons, kept))

    def _received(self, process: _Process) -> TurnReport | None:
        """Return the report that a process has sent; None for another message. Raises InternalError if the process met
        an internal error, and UsageError if it met one."""
        try:
            said = answer(process.connection.recv_bytes())
        except (EOFError, OSError):
            self._died(process)
            return None
        if isinstance(said, Failed) and said.usage:
            raise UsageError(said.error)
        if isinstance(said, Failed):
            raise InternalError(f"{said.error}\n{said.trace}")
        process.waits = said.waits if isinstance(said, Waiting) else ()
        if isinstance(said, WorkersStarted):
            self.missing |= said.missing
            process.started = True
        return self._reported(process, said) if isinstance(said, TurnTaken) else None

    def _reported(self, process: _Process, said: TurnTaken) -> TurnReport:
        process.restarts, report = said.restarts, said.report
        self.most_bytes = max(self.most_bytes, said.resident)
        process.retires = process.retires or said.resident > MEMORY_LIMIT
        if report.rest:
            process.tasks[0] = replace(process.tasks[0], skip=process.tasks[0].skip + 1)
        else:
            process.tasks.popleft()
        self._seen_by.update(dict.fromkeys(report.findings, process))
        if process.retires and not process.tasks:
            self._replace(process)
        return report

    def _died(self, process: _Process) -> None:
        """Replace a process that has ended, and have its turns taken again."""
        self.deaths += 1
        tasks, first = list(process.tasks), True
        fresh = self._replace(process)
        for task in tasks:
            self._failed[task.op, task.seed, task.place, task.group] += first
            first = False
            if self._failed[task.op, task.seed, task.place, task.group] >= MOST_DEATHS:
                self.given_up.append(f"{task.op}, seed {task.seed}, {task.turn}")
                self._untaken.append(TurnReport(task, state=task.state))
                continue
            self._give(fresh, task)

    def _replace(self, process: _Process) -> _Process:
        self._end(process)
        self._restarts.update(process.restarts)
        number = self._processes.index(process)
        fresh = self._processes[number] = self._forked(process.group, number)
        if self._asked:
            self._send(fresh, Start())
        return fresh

    def _end(self, process: _Process) -> None:
        process.connection.close()
        if process.tasks:
            process.handle.terminate()
        process.handle.join(1.0)
        if process.handle.is_alive():
            process.handle.kill()
            process.handle.join()


def _remember(known: dict[tuple[str, int], _T], search: tuple[str, int], value: _T, most: int) -> None:
    """Store the value of the latest search, and forget the oldest beyond `most`, as the processes do."""
    known.pop(search, None)
    known[search] = value
    while len(known) > most:
        del known[next(iter(known))]
