"""The work of a Dask worker: `answered`, the one function that it calls, takes and returns JSON text.

A separate process takes the turns, and serves all threads of the worker. If a kernel ends that process, Dask tries the
turns again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import msgspec

from fuzz.campaign.search import wire
from fuzz.campaign.search.turn_runner import TurnJob
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.transport.process import START_LIMIT_S
from fuzz.extras.fleet.cluster import AWAY_S, code_digest

_LOOK_S = 1.0
_SILENT_S = START_LIMIT_S + AWAY_S
"""The seconds for which a process may be silent at its start. It reports every second what it builds or starts, but
before that it loads the pack, which may import large packages."""


class ShardEndedError(Exception):
    """The process that takes turns has ended; the next request starts another one."""


@dataclass
class _SentTurns:
    """Turns that were sent to the process together."""

    left: int
    taken: list[str] = field(default_factory=list)
    """The messages of finished pieces, as text."""
    done: threading.Event = field(default_factory=threading.Event)
    failed: str = ""
    """The reason why the turns were not taken; '' if they were."""


@dataclass(frozen=True)
class _Lessons:
    """The lessons of the first positions of a search, in pieces."""

    chunks: Sequence[str]
    sizes: Sequence[int]

    def since(self, told: int) -> list[bytes]:
        """Return the lessons from position `told` on, one for each position."""
        found, start = list[bytes](), 0
        for chunk, size in zip(self.chunks, self.sizes, strict=True):
            if start + size > told:
                found += [b64decode(each) for each in chunk.split()[max(0, told - start) :]]
            start += size
        return found


class FleetShard:
    """The process on this machine that takes the turns of one campaign and group."""

    def __init__(self, campaign: dict[str, Any], group: int) -> None:
        ours, theirs = Pipe()
        command = [sys.executable, "-m", "fuzz.extras.fleet.process", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._connection: Connection = ours
        self._lock = threading.Lock()
        self._orders: deque[_SentTurns] = deque()
        self._calls: SimpleQueue[wire.Calls] = SimpleQueue()
        self._told: dict[tuple[str, int], int] = {}
        self._ready = threading.Event()
        self._heard = time.monotonic()
        self.started: wire.WorkersStarted | None = None
        self.failed = ""
        self.usage = False
        """Whether the process failed because of a mistake of the user."""
        self.send(json.dumps({"campaign": campaign, "group": group}).encode(), wire.packed(wire.Start()))
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def ended(self) -> bool:
        return bool(self.failed)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, *messages: bytes) -> None:
        """Send messages. A process that has ended is noticed later, when its answer is awaited."""
        try:
            for message in messages:
                self._connection.send_bytes(message)
        except OSError:
            pass

    def wait_ready(self) -> None:
        """Wait until the process has started or failed. A process that is silent for long is ended."""
        while not self._ready.wait(_LOOK_S):
            if time.monotonic() - self._heard > _SILENT_S:
                self.failed = f"says nothing for {_SILENT_S:.0f} s at the start of its process, which is ended"
                self.usage = True
                self.end()

    def take(self, tasks: list[TurnJob], lessons: _Lessons, kept: list[tuple[str, str]]) -> list[str]:
        """Return the messages with the results of some turns of one search. Raises ShardEndedError."""
        search = tasks[0].op, tasks[0].seed
        with self._lock:
            order = _SentTurns(len(tasks))
            self._orders.append(order)
            if self.failed:
                raise ShardEndedError(self.failed)
            told = self._told.get(search, 0)
            new = lessons.since(told)
            for task in tasks:
                self.send(wire.packed(wire.Take(task, new[: max(0, task.known - told)], kept)))
                new = new[max(0, task.known - told) :]
                told = max(told, task.known)
            self._told[search] = told
        order.done.wait()
        if order.failed:
            raise ShardEndedError(order.failed)
        return order.taken

    def before(self, finding: tuple[str, str]) -> wire.Calls:
        with self._lock:
            if self._orders or self.failed:
                return wire.Calls([])
            self.send(wire.packed(wire.CallsRequest(finding)))
        return self._calls.get()

    def end(self) -> None:
        self._process.kill()

    def _read(self) -> None:
        try:
            while True:
                said = self._connection.recv_bytes()
                self._heard = time.monotonic()
                message = wire.passing(said)
                if isinstance(message, wire.WorkersStarted):
                    self.started = message
                    self._ready.set()
                elif isinstance(message, wire.Calls):
                    self._calls.put(message)
                elif isinstance(message, wire.Failed):
                    self.failed, self.usage = message.error, message.usage
                elif isinstance(message, wire.Passed):
                    self._taken(said, message)
        except (EOFError, OSError):
            self._process.wait()
            with self._lock:
                self.failed = self.failed or f"its process ended: exit status {self._process.returncode}"
                for order in self._orders:
                    order.failed = self.failed
                    order.done.set()
            self._calls.put(wire.Calls([]))
            self._ready.set()

    def _taken(self, said: bytes, message: wire.Passed) -> None:
        order = self._orders[0]
        order.taken.append(b64encode(said).decode())
        order.left -= not message.plain.rest
        if not order.left:
            self._orders.popleft()
            order.done.set()


_SHARDS: dict[str, FleetShard] = {}
"""The processes of this worker, by campaign and group."""
_OPENING = threading.Lock()


def answered(text: str, *chunks: str) -> str:
    """Return the answer to a campaign's request. `chunks` are lessons that Dask keeps on the worker."""
    return json.dumps({"worker": _here(), **_answer(json.loads(text), chunks)})


def _here() -> str:
    """Return the address of this worker."""
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # it was not called by a task
        return ""


def _answer(asked: dict[str, Any], chunks: Sequence[str]) -> dict[str, Any]:
    if asked["code"] != code_digest():
        return {"refused": f"has kernelfuzz {code_digest()}, and not {asked['code']}"}
    what, key = asked["ask"], json.dumps([asked["campaign"], asked["group"]])
    if what == "machine":
        host = this_host()
        return {"arch": host.arch, "features": sorted(host.features), "settings": dict(host.settings)}
    if what in ("cut", "end"):
        shard = _SHARDS.pop(key, None) if what == "end" else _SHARDS.get(key)
        if shard is not None:
            shard.end() if what == "end" else shard.send(wire.packed(wire.Cut()))
        return {}
    if what == "explain":
        return {"causes": _explained(asked)}
    shard = _shard(key, asked["campaign"], asked["group"])
    if shard.failed and shard.usage:
        _SHARDS.pop(key, None)  # the mistake may be corrected by the next request
        return {"refused": shard.failed}
    if shard.failed or shard.started is None:
        raise ShardEndedError(shard.failed)
    if what == "start":
        return {"missing": shard.started.missing, "attested": shard.started.attested}
    if what == "before":
        return {"calls": b64encode(wire.packed(shard.before((asked["target"], asked["case"])))).decode()}
    lessons = _Lessons((*chunks, asked["lessons"]), asked["sizes"])
    tasks = msgspec.convert(asked["tasks"], list[TurnJob])
    kept = [(target, case) for target, case in asked["kept"]]
    return {"taken": shard.take(tasks, lessons, kept), "pid": shard.pid, "token": asked["token"]}


def _explained(asked: dict[str, Any]) -> Any:
    """Return the explanation, made in a separate process: if a kernel ends it, this process and the one that takes
    turns live on."""
    command = [sys.executable, "-m", "fuzz.extras.fleet.process"]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShardEndedError(done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}")
    return json.loads(done.stdout)


def _shard(key: str, campaign: dict[str, Any], group: int) -> FleetShard:
    with _OPENING:
        known = _SHARDS.get(key)
        if known is None or known.ended:
            known = _SHARDS[key] = FleetShard(campaign, group)
    known.wait_ready()
    return known
