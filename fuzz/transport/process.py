"""One worker process: its pipes, its time limit and how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fuzz.transport import frames, records
from fuzz.transport.frames import FrameError, Response

MEMORY_LIMIT = 4 << 30
"""The limit of private writable memory in bytes. It is not RLIMIT_AS: an emulator reserves its guest's whole address
space."""
FILE_LIMIT = 64 << 20
"""The limit of a file in bytes: what a kernel prints goes to a temporary file, which must not fill the disk."""

_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_TAIL_BYTES = 2000
_LAST_BREATH_S = 2.0
_HELLO_LIMIT_S = 120.0
"""A worker has at least this many seconds to start. Starting is no case: a Python kernel is imported first."""


@dataclass(frozen=True)
class Ending:
    """How a worker stopped answering."""

    hung: bool
    code: int
    """The exit code, or minus the number of the signal, as in subprocess."""
    said: str
    """The end of what it wrote to stderr."""

    @property
    def from_outside(self) -> bool:
        """True for the signals that others send: an operator, or the kernel when memory runs out."""
        return not self.hung and self.code in (-signal.SIGKILL, -signal.SIGTERM)

    def __str__(self) -> str:
        if self.hung:
            return "no answer within the time limit"
        how = f"killed by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with exit code {self.code}"
        return f"{how}{': ' + self.said if self.said else ''}"


class EndedError(Exception):
    """The process died or hung."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending = ending


class Child(Protocol):
    """A process that was started; a Popen is one."""

    pid: int

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Exit code, or minus the number of the signal. Raises subprocess.TimeoutExpired."""
        ...


Start = Callable[[int, int, int], Child]
"""A function that starts a worker on three descriptors: its stdin, stdout and stderr. It raises OSError."""


def command(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Start:
    """How to start a worker that is a program of its own."""

    def start(stdin: int, stdout: int, stderr: int) -> Child:
        # A session of its own: an interrupt from the keyboard is ours to handle, not the workers'.
        return subprocess.Popen(
            words, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, start_new_session=True
        )

    return start


class Process:
    """A running worker. `limit` is the longest silence in seconds that is taken for work; `memory` bounds what it may
    allocate, in bytes."""

    def __init__(self, start: Start, limit: float, memory: int | None = MEMORY_LIMIT) -> None:
        self._limit = limit
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        stdin, self._to = os.pipe()
        self._from, stdout = os.pipe()
        try:
            self._child = start(stdin, stdout, self._errors.fileno())
        except OSError:
            self._release()
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        self._received = bytearray()
        self._prepare(memory)

    @property
    def pid(self) -> int:
        return self._child.pid

    def hello(self) -> str:
        """The text of the hello frame. Raises EndedError or FrameError."""
        magic, size = records.HELLO.unpack(self._take(records.HELLO.size, max(self._limit, _HELLO_LIMIT_S)))
        if magic != records.HELLO_MAGIC:
            raise FrameError(f"process {self.pid} is no worker: it says {magic:08x}")
        return self._take(size).decode()

    def exchange(self, cases: Sequence[bytes]) -> Iterator[Response]:
        """Send the encoded cases as one frame, yield the responses as they come. Raises EndedError or FrameError."""
        # The worker's own alarm is only for when we are gone; ours comes first.
        self._send(frames.encode_frame(cases, limit_s=math.ceil(self._limit) + 1))
        for index in range(len(cases)):
            header = self._take(records.RESPONSE.size)
            response = frames.decode_response(header, self._take(frames.payload_size(header)))
            if response.position != index:
                raise FrameError(f"response {response.position} came in place of {index}")
            yield response

    def kill(self) -> None:
        """End the process, whatever it is doing. Another thread that waits for its answer gets EndedError."""
        with contextlib.suppress(OSError):
            self._child.kill()

    def close(self) -> None:
        """End the process and release its pipes. Only for the thread that talks to it; may be called twice."""
        if not self._errors.closed:
            self.kill()
            self._child.wait()
            self._release()

    def _release(self) -> None:
        self._errors.close()
        os.close(self._to)
        os.close(self._from)

    def _prepare(self, memory: int | None) -> None:
        for descriptor in (self._to, self._from):
            os.set_blocking(descriptor, False)
            with contextlib.suppress(OSError):  # beyond the user's quota the default size has to do
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if memory is not None:
                resource.prlimit(self.pid, resource.RLIMIT_DATA, (memory, memory))
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, 0))

    def _send(self, frame: bytes) -> None:
        # A system call lets another thread of ours go first, so there are as few as can be: the pipe is nearly always
        # empty before a frame, and its answers are nearly never there at once.
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                if not _ready(self._to, select.POLLOUT, self._limit):
                    self._end(hung=True)
            except BrokenPipeError:
                self._end(hung=False)

    def _take(self, size: int, limit: float | None = None) -> bytes:
        """The next `size` bytes. The time limit starts anew with every call: each belongs to one case."""
        deadline = time.monotonic() + (self._limit if limit is None else limit)
        while len(self._received) < size:
            self._receive(deadline)
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self, deadline: float) -> None:
        if not _ready(self._from, select.POLLIN, max(0.0, deadline - time.monotonic())):
            self._end(hung=True)
        data = os.read(self._from, _READ_BYTES)
        if not data:
            self._end(hung=False)
        self._received += data

    def _end(self, hung: bool) -> None:
        """Raise EndedError, with the process gone."""
        if hung:
            self._child.kill()
        try:
            code = self._child.wait(_LAST_BREATH_S)
        except subprocess.TimeoutExpired:  # it closed its pipe and lives on
            self._child.kill()
            code = self._child.wait()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _TAIL_BYTES))
        said = self._errors.read().decode(errors="replace").strip()
        self.close()
        if code == records.BROKEN_FRAME_EXIT and "kernelfuzz worker: " in said:
            raise FrameError(said)
        raise EndedError(Ending(hung or code == -signal.SIGALRM, code, said))


def _ready(descriptor: int, what: int, seconds: float) -> bool:
    """Wait until a pipe can be read or written, or was closed at its other end; False where it takes too long."""
    poll = select.poll()
    poll.register(descriptor, what)
    return bool(poll.poll(seconds * 1000))
