"""Workers of Python kernels, forked by a server that has already imported their modules, since importing torch takes
seconds. This process has one server for each set of imports, and separate ones for interpreted kernels. Processes that
this one forks later share its servers. `python/server.py` says why `multiprocessing` is not used."""

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

_START_LIMIT_S = 600.0
"""The seconds, by the wall clock, that a server may take to start its first worker. It imports torch, perhaps from a
cold disk, or on a busy machine."""
MESSAGE_BYTES = 64
"""The largest size of a message in bytes. A message is 'code' or 'pid', and a number."""


def worker_environment(interpreted: bool) -> dict[str, str]:
    """Return the environment variables of a worker of Python kernels, forked or not."""
    variables = finding_us({name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"})
    # Each worker has one thread, since many run at a time, and idle threads would not survive a fork.
    variables |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    return variables | ({"TRITON_INTERPRET": "1"} if interpreted else {})


def finding_us(environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which Python finds this package, from a checkout too."""
    package, path = Path(__file__).resolve().parents[3], environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": os.pathsep.join([str(package), *([path] if path else [])])}


class ForkServer:
    """A program that starts processes quickly by forking itself. It may be used from many threads."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], sandbox: Sandbox | None = None) -> None:
        """`words` start the program. They are followed by the number of a descriptor from which it reads requests."""
        self._words, self._environment, self._sandbox = words, environment, sandbox
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0
        """The id of the process that started the server."""

    def begin(self) -> None:
        """Start the server unless it runs. It then imports while its caller does something else, and processes forked
        later share it instead of waiting for their own. Raise OSError."""
        with self._lock:
            if not self._runs():
                self._restart()

    def start(self, spec: str, stdin: int, stdout: int, stderr: int, journal: int) -> Child:
        """Return a worker for the encoded `spec`. Raise OSError if none can be started."""
        descriptors = (stdin, stdout, stderr, journal)
        try:
            return self._started(spec, descriptors)
        except TimeoutError:
            raise
        except OSError:
            self.stop()  # the server has ended, which processes that share it, or its sandbox, cannot know
        return self._started(spec, descriptors)

    def _started(self, spec: str, descriptors: Sequence[int]) -> Child:
        ours = self.hand(spec.encode(), descriptors)
        try:
            return _Forked(ours, self._popen.pid if self._sandbox is not None and self._popen is not None else None)
        except OSError:
            ours.close()
            raise

    def hand(self, message: bytes, descriptors: Sequence[int]) -> socket.socket:
        """Have the server fork a process for a message. The first three descriptors become its stdin, stdout and
        stderr. Return the socket on which the server sends the process's id and end, and on which 'term' and 'kill' end
        the process. Raise OSError if the server cannot be reached."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, self._lock:
                if not self._runs():
                    self._restart()
                assert self._control is not None
                # a message arrives whole, whichever process that shares the socket sends it
                socket.send_fds(self._control, [message], [*descriptors, theirs.fileno()])
        except OSError:
            ours.close()
            raise
        return ours

    def stop(self) -> None:
        """End the server and all processes that it has forked."""
        with self._lock:
            self._stop()

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` for the end of the server. Other processes may notice its end a little earlier."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._popen is not None:
                self._popen.wait(seconds)

    def _runs(self) -> bool:
        """Return whether the server was started, and has not ended as far as this process knows. Only the server's
        parent can see that it has ended."""
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
    """A worker that the server forked. It is no child of this process, so the server reports its id and its end, and
    ends it on request."""

    def __init__(self, notify: socket.socket, sandbox: int | None) -> None:
        """`sandbox` is the id of the process that started the server's sandbox, or None without one."""
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
    """Return the number in a notice from a server, or None if the server has ended or the bytes are no notice."""
    found = re.fullmatch(rb"(?:pid|code) (-?\d{1,9})", notice)
    return None if found is None else int(found[1])


@cache
def fork_server(imports: tuple[str, ...], interpreted: bool, sandbox: Sandbox | None = None) -> ForkServer:
    """Return this process's server for kernels that import these modules. The server starts when it is first used."""
    # without -P, Python would take files of the current folder for modules that libraries import
    words = [sys.executable, "-P", "-m", "fuzz.core.transport.python", "serve", *imports]
    server = ForkServer(words, worker_environment(interpreted), sandbox)
    atexit.register(server.stop)
    return server
