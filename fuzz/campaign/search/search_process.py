"""A process of an executor: it takes the turns that it is sent, with its own workers, and reports each of them."""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from fuzz.campaign.parallel import stand_alone
from fuzz.campaign.search.turn_runner import SearchScope, TurnJob, TurnRunner
from fuzz.campaign.search.wire import (
    Calls,
    CallsRequest,
    Cut,
    Failed,
    RemoteWait,
    Start,
    Take,
    TurnTaken,
    Waiting,
    WorkersStarted,
    order,
    packed,
    taken,
)  # fmt: skip
from fuzz.core.adapters.cuda import use_device
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.errors import UsageError
from fuzz.core.execute.batch import Wait
from fuzz.core.execute.pool import WorkerPool
from fuzz.report.records import status_record
from oracles import escalation

TOLD_S = 1.0
"""Seconds after which a running case is reported, and between two reports; a live line shows the case after two."""
COLLECT_EVERY = 64
"""The number of batches between two full garbage collections. New objects are collected after each batch, since their
reference cycles hold arrays of the oracle, hundreds of megabytes in some batches. Measured: the collections that Python
does by itself took 5% of a search."""
_KEPT_BYTES = 1 << 28
"""The bytes of free memory that are not given back to the system, which would clear them again for the next batch.
Measured: this clearing took a fifth of the time of six emulated targets."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MOST = -1, -3, 1 << 25
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3), and the largest value of the latter in bytes."""


class SearchProcess:
    """Takes turns until its connection is closed."""

    def __init__(self, connection: Connection, targets: Sequence[Target], scope: SearchScope, pool: WorkerPool) -> None:
        self._connection, self._targets, self._scope, self._pool = connection, targets, scope, pool
        self._turn_runner: TurnRunner | None = None
        self._inbox: queue.SimpleQueue[Start | Take | CallsRequest | None] = queue.SimpleQueue()
        self._cut = False
        self._told = 0.0
        self._ends = 0
        self._tasks: list[TurnJob] = []

    def serve(self) -> None:
        """Take turns until the connection is closed. A thread receives messages at once, so that no side has to
        wait."""
        threading.Thread(target=self._receive, daemon=True).start()
        while self._obey_all():
            while self._turn_runner is not None and (first := self._turn_runner.next_of(self._tasks)):
                self._turn_runner.begin(*first)
                del self._tasks[: len(first)]
            if self._turn_runner is not None and self._turn_runner.on_their_way:
                self.report(self._turn_runner)

    @property
    def _on_their_way(self) -> int:
        return 0 if self._turn_runner is None else self._turn_runner.on_their_way

    def _obey_all(self) -> bool:
        """Carry out the received messages, and wait for one if there is nothing else to do. Return False at the end."""
        with suppress(queue.Empty):
            while True:
                message = self._inbox.get(block=not self._tasks and not self._on_their_way)
                if message is None:
                    return False
                self._obey(message)
        return True

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = order(self._connection.recv_bytes())
                if isinstance(message, Cut):
                    self._cut = True
                else:
                    self._inbox.put(message)
        self._inbox.put(None)
        self._cut = True

    def _obey(self, message: Start | Take | CallsRequest) -> None:
        if isinstance(message, CallsRequest):
            calls = self._turn_runner.calls.before(message.finding) if self._turn_runner is not None else ()
            self._send(Calls(list(calls)))
            return
        if self._turn_runner is None:
            self._turn_runner = self._started()
        if isinstance(message, Start):
            return
        self._cut = False
        known = self._turn_runner.searched(message.task.op, message.task.seed)
        known.lessons += message.lessons
        self._turn_runner.kept = set(message.kept)
        self._tasks.append(message.task)

    def _started(self) -> TurnRunner:
        """Start the workers, only when the first message asks for them: by then their kernels are built."""
        self._pool.watch, escalation.watch, escalation.over = self._watch, self.judging, lambda: self._cut
        pool = self._pool.__enter__()
        missing = {name: status.reason for name, status in pool.statuses.items() if isinstance(status, NotRun)}
        attested = {name: status_record(status) for name, status in pool.statuses.items() if name not in missing}
        self._send(WorkersStarted(missing, attested))
        return TurnRunner(pool, self._targets, self._scope)

    def report(self, turn_runner: TurnRunner) -> None:
        """Send the reports of the turns that began first, and forget these turns."""
        for report in turn_runner.end():
            self._send(taken(report, resident(), self._pool.restarts))
        self._ends += 1
        gc.collect(2 if self._ends % COLLECT_EVERY == 0 else 0)

    def _watch(self, waits: Sequence[Wait]) -> Collection[str]:
        """Report cases that take long. After the connection asked to cut, stop waiting for all cases."""
        now, long = time.monotonic(), [wait for wait in waits if wait.seconds >= TOLD_S]
        if long and now - self._told >= TOLD_S:
            self._told = now
            told = ((each.target, None, each.seconds, each.limit, each.words, each.name) for each in long)
            self._send(Waiting([RemoteWait(*each) for each in told]))
        return [wait.target for wait in waits] if self._cut else ()

    def judging(self, step: escalation.PreciseProgress) -> None:
        """Report an output that the oracle takes long to judge."""
        now = time.monotonic()
        if step.seconds >= TOLD_S and now - self._told >= TOLD_S:
            self._told = now
            name = f"{step.output} of {step.op}"
            told = RemoteWait("the oracle", None, step.seconds, escalation.MOST_S, step.words, name)
            self._send(Waiting([told]))

    def _send(self, message: WorkersStarted | Waiting | TurnTaken | Calls) -> None:
        self._connection.send_bytes(packed(message))


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def run_search_process(
    connection: Connection, others: Sequence[Connection], targets: Sequence[Target], scope: SearchScope,
    make_pool: Callable[[Sequence[Target]], WorkerPool], device: str = "",
) -> None:  # fmt: skip
    """Run a forked process until it ends. `others` are the ends of connections that belong to other processes. Its
    workers use the GPU `device`, or any if it is ''."""
    stand_alone()
    if device:
        use_device(device)
    pool = make_pool(targets)

    def stop(number: int, frame: FrameType | None) -> None:
        pool.stop()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)  # ends workers too: one whose kernel hangs would stay for seconds
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, _MMAP_MOST)
    for each in others:  # the other end only notices a closed connection if no copy of it is open
        each.close()
    gc.freeze()  # the parent's objects are not looked at, and so not copied, in each collection
    gc.disable()  # see COLLECT_EVERY
    try:
        SearchProcess(connection, targets, scope, pool).serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent has ended
    except BaseException as error:
        words = "".join(traceback.format_exception(error))
        with suppress(OSError):
            usage = isinstance(error, UsageError)
            said = str(error) if usage else f"{type(error).__name__}: {error}"
            connection.send_bytes(packed(Failed(said, words, usage)))
    pool.stop()
    os._exit(0)
