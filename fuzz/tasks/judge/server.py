"""A server that answers requests to judge, each in a process of its own.

The server itself is small. For each problem it starts a desk: a process that imports torch and reads the reference
once, and then forks for each request, so that no request can affect the next one. A forked process does what the
command does, with the client's stdout and stderr, so the answer is the same. As always, solutions run in workers of
their own, in a sandbox.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import socketserver
import struct
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from fuzz.core.base.errors import AwayError, UsageError
from fuzz.core.base.exits import MEANINGS, Exit
from fuzz.core.transport.fork_server import MESSAGE_BYTES, ForkServer, finding_us, number_in
from fuzz.tasks.judge.asked import JudgeRequest, decoded

_REQUEST_BYTES = 1 << 18
_BEGUN, _READ = b"begun", b"read"
"""What a client is told: its turn has come, and the reference was read."""
_LONGEST_NAME = 100
"""The most bytes of a socket's name; Linux takes 107."""
_LOOK_S = 0.2
"""The seconds between two checks whether a client in the queue is still there. Chosen, not measured."""
_GRACE_S = 10.0
"""The seconds that a judge has after its time limit to answer, before it is ended. Chosen, not measured."""
_MOST_DESKS = 4
"""The most desks that are kept; each takes some 300 MB."""
_DEPENDS = ("PATH", "PYTHON*", "LD_*", "*_NUM_THREADS", "TRITON_*", "TORCH*", "CUDA_*", "HOME", "KERNELFUZZ_*")
"""The environment variables that may affect how a reference is read, as glob patterns."""
_TRIES = 3
_LATER = (
    "fuzz.campaign.explaining", "fuzz.campaign.measured", "fuzz.campaign.search.process_executor", "fuzz.formula",
    "numpy.ma", "rich.spinner",
)  # fmt: skip
"""Modules that a judge imports only when it needs them. A desk imports them in advance."""
_SERVE = ("-P", "-m", "fuzz", "judge", "--desk")


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A server that handles each connection in a thread, which only waits."""

    socket_type = socket.SOCK_SEQPACKET  # so that a request arrives whole
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, at_once: int) -> None:
        self.turns, self.say = threading.Semaphore(at_once), _said
        self._desks, self._busy = OrderedDict[object, ForkServer](), Counter[object]()
        self._lock = threading.Lock()
        before = os.umask(0o177)  # whoever reaches the socket can run programs as this user
        try:
            super().__init__(address, _Handler)
        finally:
            os.umask(before)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether the client is the same user as the server."""
        _, user, _ = struct.unpack("3i", request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return bool(user == os.geteuid())

    @contextmanager
    def desk(self, request: JudgeRequest) -> Iterator[ForkServer]:
        """Yield the desk of a problem, which is started for its first request, and keep it until the context ends."""
        own = {
            name: value for name, value in request.environment.items()
            if any(fnmatchcase(name, each) for each in _DEPENDS)
        }  # fmt: skip
        asked = request.asked
        key = (request.folder, asked.against, asked.shapes, asked.values, asked.own, asked.any_values, *own.items())
        with self._lock:
            if key not in self._desks:
                words, environment = [sys.executable, *_SERVE], finding_us(request.environment)
                self._desks[key] = ForkServer(words, environment)
            self._desks.move_to_end(key)
            self._busy[key] += 1
            desk, idle = self._desks[key], [each for each in self._desks if not self._busy[each]]
            old = [self._desks.pop(each) for each in idle[: max(len(self._desks) - _MOST_DESKS, 0)]]
        for each in old:
            each.stop()
        try:
            yield desk
        finally:
            with self._lock:
                self._busy[key] -= 1

    def stop(self) -> None:
        """End everything that is being judged, and remove the socket."""
        self.server_close()
        Path(str(self.server_address)).unlink(missing_ok=True)
        for desk in self._desks.values():
            desk.stop()


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        descriptors = list[int]()
        try:
            message, descriptors, _, _ = socket.recv_fds(self.request, _REQUEST_BYTES, 2)
            if not message:  # the client only checks that a server answers
                return
            request = decoded(message)
            if len(descriptors) != 2:
                raise UsageError("the server got no stdout and stderr to answer on")
            with self._turn():
                self.request.send(_BEGUN)
                self._answer(replace(request, began=time.monotonic()), descriptors)
        except UsageError as error:
            self.request.send(f"refused {error}".encode()[:_REQUEST_BYTES])
        except OSError:
            pass  # the client has gone
        finally:
            for each in descriptors:
                os.close(each)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        while not self.server.turns.acquire(timeout=_LOOK_S):
            if _readable([self.request], 0.0):
                raise BrokenPipeError
        try:
            yield
        finally:
            self.server.turns.release()

    def _answer(self, request: JudgeRequest, descriptors: Sequence[int]) -> None:
        what = " ".join(request.asked.solutions)
        with Path(os.devnull).open("rb") as nothing, self.server.desk(request) as desk:
            for _ in range(_TRIES):  # again if the desk had ended, or ends because its reference has changed
                with desk.hand(request.encoded(), [nothing.fileno(), *descriptors]) as notices:
                    code = self._waited(notices, desk)
                if code is not None:
                    self.server.say(f"{what}: exit code {code}, {time.monotonic() - request.began:.1f} s")
                    self.request.send(f"code {code}".encode())
                    return
                desk.wait(_GRACE_S)
        raise UsageError("the server's process for this problem ended while it was read")

    def _waited(self, notices: socket.socket, desk: ForkServer) -> int | None:
        """Return the exit code, or None if the desk has ended. If the client goes, end its work and raise
        BrokenPipeError."""
        while True:
            if self.request in _readable([notices, self.request], None):
                notices.send(b"term")
                if not _readable([notices], _GRACE_S) or not _ended(notices):
                    desk.stop()  # the desk is still reading the reference
                raise BrokenPipeError
            notice = notices.recv(MESSAGE_BYTES)
            if not notice.startswith(b"pid "):
                return number_in(notice)
            self.request.send(_READ)


def _ended(notices: socket.socket) -> bool:
    """Return whether a process that was asked to end does so in time."""
    notices.settimeout(_GRACE_S)
    with suppress(TimeoutError):
        while notices.recv(MESSAGE_BYTES).startswith(b"pid "):
            pass
        return True
    return False


def _readable(sockets: Sequence[socket.socket], seconds: float | None) -> list[socket.socket]:
    watch = select.poll()  # not select, which knows no descriptor beyond 1023
    for each in sockets:
        watch.register(each, select.POLLIN)
    ready = {number for number, _ in watch.poll(None if seconds is None else 1000 * seconds)}
    return [each for each in sockets if each.fileno() in ready]


def _said(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def serve(address: str, at_once: int) -> Exit:
    """Answer requests on a socket of this name, `at_once` at a time, until told to end. Raises UsageError."""
    _free(address)
    try:
        server = _Server(address, at_once)
    except OSError as error:
        raise UsageError(f"--serve {address}: {error.strerror or error}") from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.say(f"judging on {address}, {at_once} at once: kernelfuzz judge ... --server {address}")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    finally:
        server.stop()
    return Exit.OK


def _free(address: str) -> None:
    """Remove the socket of a killed server. Raises UsageError if a server answers, or if it is another file."""
    if len(os.fsencode(address)) > _LONGEST_NAME:
        raise UsageError(f"--serve {address}: a socket's name has at most {_LONGEST_NAME} bytes")
    path = Path(address)
    if path.exists() and not path.is_socket():
        raise UsageError(f"--serve {address}: it is there already, and no socket")
    with suppress(AwayError):
        _connected(address).close()
        raise UsageError(f"--serve {address}: a server answers there already")
    path.unlink(missing_ok=True)


def _connected(address: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        found.connect(address)
    except OSError as error:
        found.close()
        raise AwayError(f"--server {address}: no server answers there: {error.strerror or error}") from error
    return found


def ask(address: str, request: JudgeRequest) -> Exit:
    """Have a server answer a request on this process's stdout and stderr, and return the exit code. If the answer is
    late, stop waiting and answer that nothing was judged. Raises UsageError for what the server refuses, and AwayError
    if no server answers."""
    limit = request.asked.max_time
    with _connected(address) as server:
        try:
            socket.send_fds(server, [request.encoded()], [1, 2])
            notice = server.recv(_REQUEST_BYTES)
            for told, grace in ((_BEGUN, 0.0), (_READ, _GRACE_S)):
                if notice == told:  # reading the reference does not watch the time, but the judge does
                    server.settimeout(None if limit is None else limit + grace)
                    notice = server.recv(_REQUEST_BYTES)
        except TimeoutError:
            from fuzz.tasks.judge.answer import overdue

            server.close()
            return overdue(request.asked, json=request.json)
        except OSError as error:
            raise AwayError(f"--server {address}: {error.strerror or error}") from error
    if notice.startswith(b"refused "):
        raise UsageError(notice[len(b"refused ") :].decode())
    if (code := number_in(notice)) is None or code not in MEANINGS:
        raise AwayError(f"--server {address}: it ended before it answered")
    return Exit(code)


def stand(descriptor: int, leave: Callable[[Callable[..., object]], None]) -> NoReturn:
    """Run as a desk: serve the requests that arrive on a descriptor until it is closed. A process that is forked for a
    request runs it and ends through `leave`, as the command does."""
    from fuzz.contracts.measuring import GUESSED
    from fuzz.contracts.orders import known
    from fuzz.core.transport.python.server import serve_forks
    from fuzz.core.transport.sandbox import unusable
    from fuzz.tasks.judge.answer import answered
    from fuzz.tasks.judge.judging import Readings

    readings = Readings()
    for name in _LATER:
        import_module(name)
    unusable()
    known(GUESSED)

    def prepare(message: str) -> None:
        request = decoded(message.encode())
        os.chdir(request.folder)
        readings.know(request.asked)

    def become(message: str, _: Sequence[int]) -> NoReturn:
        request = decoded(message.encode())
        os.environ.clear()
        os.environ.update(request.environment)
        readings.begin()
        how = {"json": request.json, "verbose": request.verbose}
        leave(lambda **_: answered(request.asked, **how, began=request.began, read=readings.read))
        sys.exit(Exit.INTERNAL)

    serve_forks(socket.socket(fileno=descriptor), become, prepare)
    os._exit(Exit.OK)
