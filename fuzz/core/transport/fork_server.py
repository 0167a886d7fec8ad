"""Workers of Python kernels, forked by a server that has imported what their kernels import: torch takes seconds. This
process has one server for each set of imports, and another for interpreted kernels; processes that are forked later
share the existing servers. `python/server.py` says why `multiprocessing` is not used."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from fuzz.core.transport.child import Child
from fuzz.core.transport.sandbox import BARE, Sandbox, outside, started

_START_LIMIT_S = 180.0
"""Seconds that a server may take to start its first worker: it imports torch, perhaps on a busy machine from a cold
disk."""
MESSAGE_BYTES = 64
"""A message takes less: it is 'code' or 'pid', and a number."""


def worker_environment(interpreted: bool) -> dict[str, str]:
    """The environment variables of a worker of Python kernels, forked or not."""
    variables = finding_us({name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"})
    # One worker is one thread: many run at a time, and idle threads would not survive a fork.
    variables |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    return variables | ({"TRITON_INTERPRET": "1"} if interpreted else {})


def finding_us(environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which Python finds this package, from a checkout too."""
    package, path = Path(__file__).resolve().parents[3], environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": os.pathsep.join([str(package), *([path] if path else [])])}


class ForkServer:
    """Starts processes quickly, by a program that forks them from itself. Safe to use from many threads."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], sandbox: Sandbox | None = None) -> None:
        """`words` begin the program; the number of a descriptor follows, from which it reads what it is asked."""
        self._words, self._environment, self._sandbox = words, environment, sandbox
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0
        """The process that started it."""

    def begin(self) -> None:
        """Start the server, unless it runs: it imports while its caller does something else, and processes that are
        forked from now on have no server of their own to wait for. Raises OSError."""
        with self._lock:
            if not self._runs():
                self._restart()

    def start(self, spec: str, stdin: int, stdout: int, stderr: int, journal: int) -> Child:
        """Return a worker for the encoded `spec`. Raises OSError."""
        descriptors = (stdin, stdout, stderr, journal)
        try:
            return self._started(spec, descriptors)
        except TimeoutError:
            raise
        except OSError:
            self.stop()  # it has ended: who shares it cannot know, nor who has just ended its sandbox
        return self._started(spec, descriptors)

    def _started(self, spec: str, descriptors: Sequence[int]) -> Child:
        ours = self.hand(spec.encode(), descriptors)
        try:
            return _Forked(ours, self._popen.pid if self._sandbox is not None and self._popen is not None else None)
        except OSError:
            ours.close()
            raise

    def hand(self, message: bytes, descriptors: Sequence[int]) -> socket.socket:
        """Have a process forked for a message, with descriptors of which the first three become its stdin, stdout and
        stderr. Return the socket on which its id and its end are told, and on which 'term' and 'kill' end it. Raises
        OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, self._lock:
                if not self._runs():
                    self._restart()
                assert self._control is not None
                # A message arrives whole, whichever of the processes that share the socket sends it.
                socket.send_fds(self._control, [message], [*descriptors, theirs.fileno()])
        except OSError:
            ours.close()
            raise
        return ours

    def stop(self) -> None:
        """End the server, and with it all that it has forked."""
        with self._lock:
            self._stop()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the server, but no longer than that: of one that ends, others know a little earlier."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._popen is not None:
                self._popen.wait(seconds)

    def _runs(self) -> bool:
        """Return whether it was started, and has not ended as far as this process can know: only its parent sees
        that."""
        return self._popen is not None and (self._owner != os.getpid() or self._popen.poll() is None)

    def _restart(self) -> None:
        self._stop()
        self._owner = os.getpid()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words, environment = [*self._words, str(theirs.fileno())], self._environment
            if self._sandbox is not None:
                words, environment = self._sandbox.command(words, environment), {**BARE}

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    env=environment, start_new_session=True,
                )  # fmt: skip

            self._popen = start() if self._sandbox is None else started(start)

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._popen is not None and self._owner == os.getpid():
            self._popen.kill()
            self._popen.wait()
        self._control = self._popen = None


class _Forked:
    """A worker that the server forked. It is no child of ours: the server sends its id and its end, and can kill it."""

    def __init__(self, notify: socket.socket, sandbox: int | None) -> None:
        """`sandbox` is the process that started the sandbox that the server is in, if it is in one."""
        self._notify = notify
        self._code: int | None = None
        self._waiting = threading.Lock()
        notify.settimeout(_START_LIMIT_S)
        pid = number_in(notify.recv(MESSAGE_BYTES))
        if pid is None:
            raise OSError("the server of Python workers ended before it started one")
        self.pid = pid if sandbox is None else outside(sandbox, pid)

    def terminate(self) -> None:
        if self._code is None:
            self._notify.send(b"term")

    def kill(self) -> None:
        if self._code is None:
            self._notify.send(b"kill")

    def wait(self, timeout: float | None = None) -> int:
        with self._waiting:
            if self._code is None:
                self._code = self._exit_code(timeout)
                self._notify.close()
        return self._code

    def _exit_code(self, timeout: float | None) -> int:
        self._notify.settimeout(timeout)
        try:
            code = number_in(self._notify.recv(MESSAGE_BYTES))
        except TimeoutError as error:
            raise subprocess.TimeoutExpired("a Python worker", timeout or 0.0) from error
        except OSError:
            code = None
        return -signal.SIGKILL if code is None else code  # the server was killed, and its workers with it


def number_in(notice: bytes) -> int | None:
    """Return the number in a notice of a server; None where it has ended, or somebody else wrote."""
    found = re.fullmatch(rb"(?:pid|code) (-?\d{1,9})", notice)
    return None if found is None else int(found[1])


@cache
def fork_server(imports: tuple[str, ...], interpreted: bool, sandbox: Sandbox | None = None) -> ForkServer:
    """Return the server of this process for kernels that import these modules. It starts when it is first used."""
    # Without -P a file of the current folder would be taken for a module that a library looks for.
    words = [sys.executable, "-P", "-m", "fuzz.core.transport.python", "serve", *imports]
    server = ForkServer(words, worker_environment(interpreted), sandbox)
    atexit.register(server.stop)
    return server
