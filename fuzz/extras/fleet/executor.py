"""The executor whose turns are taken by workers of Dask."""

from __future__ import annotations

import json
import math
import queue
import secrets
import time
from base64 import b64decode, b64encode
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from fuzz.campaign.search.executor import Watch, silent
from fuzz.campaign.search.turn_runner import TOGETHER, FindingId, SearchScope, TurnJob, TurnReport
from fuzz.campaign.search.wire import Calls, RemoteWait, TurnTaken, answer
from fuzz.core.adapters.target import Attestation
from fuzz.core.base.case import Case
from fuzz.core.base.errors import AwayError, UsageError
from fuzz.core.base.text import counted
from fuzz.extras.fleet import cluster
from fuzz.extras.fleet.shard import answered

if TYPE_CHECKING:
    from distributed import Client, Future

_RETRIES = 3
"""The number of times that Dask retries turns whose process or worker ended."""
_ORDERS = 1.0
"""The orders in work for each thread. A worker has two threads and one process that takes their turns, so one order is
carried out while the next arrives. With more orders, each would have fewer turns."""
_CHUNKS = (1 << 15, 1 << 12, 1 << 9, 1 << 6)
"""The numbers of positions in the pieces in which workers keep lessons: there are few pieces, and each is sent to a
worker once."""
_LOOK_S = 2.0
"""Seconds between two updates of the list of workers."""
_CALLS_S = 10.0
"""The seconds to wait for a report, or for the calls before a finding, after a worker said that they are there."""
_MOST_CAUSES, _STARTING_S = 4, 60.0
"""The number of causes, and the seconds for starting workers, for which an explanation is waited for."""
_ASKING_S = 0.1
_LEAVING_S = 2.0
"""The seconds for which workers are told to end something. A stopped worker hears of it later."""


@dataclass(frozen=True)
class Told(Attestation):
    """The attestation of a worker on another machine."""

    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return "on a worker of Dask"

    @property
    def surroundings(self) -> str:
        return json.dumps(self.record, sort_keys=True)

    @property
    def wrong_dtypes(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, eq=False)
class TurnOrder:
    """Turns of one search that a worker takes together."""

    group: int
    tasks: tuple[TurnJob, ...]
    token: str


@dataclass
class DaskExecutor:
    """A context manager that has Dask's workers take turns. Dask schedules the orders, and repeats those whose worker
    or process ended. A report for an order that is no longer awaited is dropped."""

    engine: str
    campaign: cluster.Campaign
    needs: Sequence[frozenset[str]]
    """The resources that a worker needs for each group of targets."""
    scope: SearchScope
    deaths: int = 0
    """Always 0, since Dask replaces processes that end."""
    given_up: list[str] = field(default_factory=list)
    """Turns that ended a process each time they were tried."""
    missing: dict[str, str] = field(default_factory=dict)
    """The reasons why targets run on no worker, by target."""
    told: dict[str, Told] = field(default_factory=dict)
    """The attestation of a worker that runs the target, by target."""
    dropped: int = 0
    """The number of reports with an old token, which were dropped."""
    client: Client | None = None

    def __post_init__(self) -> None:
        self.watch: Watch = silent
        self._asked = {"code": cluster.code_digest(), "campaign": asdict(self.campaign)}
        self._lessons: dict[tuple[str, int], Sequence[bytes]] = {}
        self._chunks: dict[tuple[str, int, int, int], Future] = {}
        self._kept: Collection[FindingId] = ()
        self._given: dict[int, deque[TurnJob]] = {group: deque() for group in range(len(self.needs))}
        self._orders: dict[str, tuple[TurnOrder, Future]] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ended: deque[TurnReport] = deque()
        self._seen_by: dict[FindingId, str] = {}
        self._restarts: dict[str, Mapping[str, int]] = {}
        self._resident: dict[str, int] = {}
        self._workers: Mapping[str, Mapping[str, Any]] = {}
        self._looked = self._heard = 0.0
        self._staffed = time.monotonic()
        self._is_cut = False
        self._silent: set[str] = set()
        """The workers that were given up at the start, and are not asked any more."""

    def __enter__(self) -> DaskExecutor:
        """Start the workers. Raises UsageError if one of them cannot take part."""
        self.client = self.client or cluster.connected(self.engine)
        self._look()
        starting = {
            (name, group): self._submit({"ask": "start", "group": group}, [], needs, workers=[name])
            for group, needs in enumerate(self.needs)
            for name, worker in self._workers.items()
            if self.campaign.groups[group] and {*needs} <= {*worker["resources"]}
        }
        for (name, _), future in starting.items():
            said = self._started(name, future)
            self.missing |= said["missing"]
            self.told |= {target: Told("", record) for target, record in said["attested"].items()}
        self.missing = {target: why for target, why in self.missing.items() if target not in self.told}
        return self

    def _started(self, name: str, future: Future) -> Mapping[str, Any]:
        """Return a worker's answer about its targets; an empty one if the worker is gone or silent. Raises UsageError
        if the worker refuses, or is the only one."""
        heard, since = None, time.monotonic()
        while name in self._workers:
            try:
                said: Mapping[str, Any] = json.loads(future.result(timeout=_LOOK_S))
            except TimeoutError:  # kernels are being built, or Dask waits for a worker of that name
                self._look()
                last = self._workers.get(name, {}).get("last_seen")
                heard, since = last, time.monotonic() if last != heard else since
                if time.monotonic() - since > cluster.AWAY_S:
                    self._give_up(name)
            except Exception as error:
                self._client.close()
                raise UsageError(f"--engine {self.engine}: the worker {name} cannot take part: {error}") from error
            else:
                self._check(said, name)
                return said
        return {"missing": {}, "attested": {}}

    def _give_up(self, name: str) -> None:
        """Give up a silent worker. Raises UsageError if it is the only one."""
        self._silent.add(name)
        self._workers = {each: worker for each, worker in self._workers.items() if each != name}
        if not self._workers:
            self._client.close(timeout=_LEAVING_S)
            raise UsageError(
                f"--engine {self.engine}: the worker {name} is silent for {cluster.AWAY_S:.0f} s at its start"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        client = self._client
        with suppress(Exception):  # if the scheduler is gone, there is nothing to end
            client.cancel([future for _, future in self._orders.values()], force=True)
            self._tell("end")
        with suppress(Exception):
            client.close(timeout=_LEAVING_S)

    @property
    def _client(self) -> Client:
        assert self.client is not None
        return self.client

    @property
    def count(self) -> int:
        """The number of orders that are carried out at the same time."""
        return max(1, sum(int(worker["nthreads"]) for worker in self._workers.values()))

    @property
    def restarts(self) -> Mapping[str, int]:
        """By target, the number of workers that were replaced although their kernel did nothing wrong."""
        found: Counter[str] = Counter()
        for each in self._restarts.values():
            found.update(each)
        return found

    @property
    def words(self) -> str:
        """A phrase like '4 workers of Dask, 210 MB each at most'."""
        most = max(self._resident.values(), default=0) / 1e6
        old = f", {self.dropped} reports under an old token dropped" if self.dropped else ""
        silent = f", {len(self._silent)} more silent at the start and left out" if self._silent else ""
        there = f"{counted(len(self._workers), 'worker')} of Dask"
        return f"{there}{silent}, {most:,.0f} MB each at most{old}"

    def ready(self, seconds: float) -> bool:
        return True

    def room(self, group: int) -> int:
        on_their_way = sum(len(order.tasks) for order, _ in self._orders.values() if order.group == group)
        most = math.ceil(_ORDERS * cluster.threads_for(self.needs[group], self._workers)) * TOGETHER
        return most - on_their_way - len(self._given[group])

    def give(self, task: TurnJob, lessons: Sequence[bytes]) -> None:
        self._lessons[task.op, task.seed] = lessons
        self._given[task.group].append(task)

    def take(self, seconds: float) -> TurnReport | None:
        if not self._ended:  # all reports of the last order are counted, so that further turns may go together
            for group in self._given:
                self._send(group)
        if time.monotonic() - self._looked > _LOOK_S:
            self._look()
        if not self._ended:
            with suppress(queue.Empty):
                self._joined(self._done.get(timeout=seconds))
        return self._ended.popleft() if self._ended else None

    def cut(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._tell("cut")

    def _tell(self, what: str) -> None:
        """Send all workers the same request, for each group, without waiting for late answers."""
        for group in range(len(self.needs)):
            text = self._text({"ask": what, "group": group})
            with suppress(Exception):
                cluster.within(partial(self._client.run, answered, text, on_error="ignore"), _LEAVING_S)

    def drop(self) -> None:
        self._client.cancel([future for _, future in self._orders.values()], force=True)
        self._orders.clear()
        for given in self._given.values():
            given.clear()

    def keep(self, findings: Collection[FindingId]) -> None:
        self._kept = findings
        self._seen_by = {each: by for each, by in self._seen_by.items() if each in findings} | dict(
            list(self._seen_by.items())[-4096:]
        )

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        found = self._seen_by.get(finding)
        if found is None:
            return ()
        name, _, group = found.rpartition(" ")
        asked = {"ask": "before", "group": int(group), "target": finding[0], "case": finding[1]}
        with suppress(Exception):  # a worker that is gone has lost the calls
            said = json.loads(self._submit(asked, [], (), workers=[name]).result(timeout=_CALLS_S))
            calls = answer(b64decode(said["calls"]))
            return tuple(calls.cases) if isinstance(calls, Calls) else ()
        return ()

    def causes(
        self, target: str, cases: Sequence[dict[str, Any]], seconds: float, over: Callable[[], bool]
    ) -> Sequence[dict[str, Any]]:
        """Return the causes of a target's failures, found by a worker that has the target, in at most `seconds` for
        each. Raises TimeoutError if this takes longer, or once `over` returns true."""
        group = next(number for number, names in enumerate(self.campaign.groups) if target in names)
        asked = {"ask": "explain", "group": group, "cases": cases, "seconds": seconds, "seed": 0}
        future = self._submit(asked, [], self.needs[group])
        until = time.monotonic() + _MOST_CAUSES * seconds + _STARTING_S
        try:
            while future.status == "pending":
                if over() or time.monotonic() > until:
                    raise TimeoutError("it was not waited for")
                time.sleep(_ASKING_S)
            said = json.loads(future.result(timeout=_CALLS_S))
        finally:
            self._client.cancel([future], force=True)
        self._check(said, "a worker")
        found: Sequence[dict[str, Any]] = said["causes"]
        return found

    def _send(self, group: int) -> None:
        """Send the waiting turns in orders, so that no thread is idle. An order has turns of one search."""
        given, threads = self._given[group], cluster.threads_for(self.needs[group], self._workers)
        free = math.ceil(_ORDERS * max(1, threads)) - sum(order.group == group for order, _ in self._orders.values())
        if not given or free <= 0:
            return
        size = math.ceil(len(given) / free)  # few orders cost less than many
        while given:
            first, tasks = given[0], list[TurnJob]()
            most = 1 if first.is_big or first.pieces > 1 else min(TOGETHER, size)
            while given and len(tasks) < most and (given[0].op, given[0].seed) == (first.op, first.seed):
                if given[0].is_big and tasks:
                    break
                tasks.append(given.popleft())
            self._order(group, tuple(tasks))

    def _order(self, group: int, tasks: tuple[TurnJob, ...]) -> None:
        order, self._is_cut = TurnOrder(group, tasks, secrets.token_hex(8)), False
        first, known = tasks[0], max(task.known for task in tasks)
        chunks, start = self._chunks_of((first.op, first.seed), known)
        rest = [b64encode(each).decode() for each in self._lessons[first.op, first.seed][start:known]]
        asked = {
            "ask": "take", "group": group, "token": order.token, "tasks": msgspec.to_builtins(tasks),
            "lessons": " ".join(rest), "sizes": [*(size for size, _ in chunks), len(rest)], "kept": list(self._kept),
        }  # fmt: skip
        name = f"{first.op}-{order.token}"
        future = self._submit(asked, [chunk for _, chunk in chunks], self.needs[group], key=name)
        self._orders[order.token] = order, future
        future.add_done_callback(lambda _: self._done.put(order.token))

    def _chunks_of(self, search: tuple[str, int], known: int) -> tuple[list[tuple[int, Future]], int]:
        """Return the lessons of the first positions as pieces that Dask keeps, and the next position."""
        found, start, current = [], 0, set()
        for size in _CHUNKS:
            while start + size <= known:
                key = (*search, start, size)
                if key not in self._chunks:
                    text = " ".join(b64encode(each).decode() for each in self._lessons[search][start : start + size])
                    self._chunks[key] = self._client.submit(str, text, pure=False)
                found.append((size, self._chunks[key]))
                current.add(key)
                start += size
        self._chunks = {key: each for key, each in self._chunks.items() if key in current or key[:2] != search}
        return found, start

    def _joined(self, token: str) -> None:
        """Take the reports of an order. Raises UsageError, and AwayError if the scheduler is gone."""
        order, future = self._orders.pop(token, (None, None))
        if order is None or future is None:
            self.dropped += 1
            return
        if future.status == "error":
            self._failed(order)
            return
        if future.status != "finished":
            raise AwayError(f"--engine {self.engine}: the scheduler is away: what was reported before is kept")
        try:
            said = json.loads(future.result(timeout=_CALLS_S))
        except TimeoutError:  # the worker was stopped before it sent the report, so another one takes the turns
            self._order(order.group, order.tasks)
            return
        self._check(said, "a worker")
        if said["token"] != token:
            self.dropped += 1
            return
        for text in said["taken"]:
            taken = answer(b64decode(text))
            assert isinstance(taken, TurnTaken)
            name = f"{said['worker']} {order.group}"
            self._restarts[name], self._resident[name] = taken.restarts, taken.resident
            self._seen_by.update(dict.fromkeys(taken.report.findings, name))
            self._ended.append(taken.report)

    def _failed(self, order: TurnOrder) -> None:
        """Try the turns of an order one by one, if they ended every process; a single turn is given up."""
        if len(order.tasks) > 1:
            for task in order.tasks:
                self._order(order.group, (task,))
            return
        [task] = order.tasks
        self.given_up.append(f"{task.op}, seed {task.seed}, {task.turn}")
        self._ended.append(TurnReport(task, state=task.state))

    def _submit(self, asked: dict[str, Any], chunks: Sequence[Future], needs: Collection[str], **how: Any) -> Future:
        resources = cluster.requested(needs)
        if self._silent and "workers" not in how:
            how["workers"] = [*self._workers]
        return self._client.submit(
            answered, self._text(asked), *chunks, pure=False, retries=_RETRIES, resources=resources or None, **how
        )

    def _text(self, asked: dict[str, Any]) -> str:
        return json.dumps({**self._asked, **asked})

    def _check(self, said: Mapping[str, Any], name: str) -> None:
        if "refused" in said:
            raise UsageError(f"--engine {self.engine}: {said.get('worker', name)} {said['refused']}")

    def _look(self) -> None:
        """Update the list of workers. Raises AwayError if there is no answer for long."""
        self._looked = now = time.monotonic()
        try:
            self._workers = {
                name: worker for name, worker in cluster.workers_of(self._client).items() if name not in self._silent
            }
            self._heard = now
            if self._workers:
                self._staffed = now
            else:
                seconds = now - self._staffed
                said = f"none is there, {seconds:.0f} s"
                self.watch([RemoteWait(f"a worker of {self.engine}", None, seconds, math.inf, said)])
        except Exception as error:
            if now - self._heard > cluster.AWAY_S:
                said = f"--engine {self.engine}: the scheduler is away: what was reported before is kept"
                raise AwayError(said) from error
