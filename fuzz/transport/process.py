"""One worker process: its pipes, its time limit and how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fuzz.transport import frames, records
from fuzz.transport.child import Start
from fuzz.transport.frames import AnswerError, Response

MEMORY_LIMIT = 4 << 30
"""The limit of private writable memory in bytes. It is not RLIMIT_AS: an emulator reserves its guest's whole address
space."""
FILE_LIMIT = 64 << 20
"""The limit of a file in bytes: what a kernel prints goes to a temporary file, which must not fill the disk."""

_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_TAIL_BYTES = 2000
_LAST_BREATH_S = 2.0
_LOOK_S = 0.2
"""The memory of a process that is waited for is looked at so often, in seconds: it cannot write much more than a GiB in
that time."""
_SHARED_BYTES = 1 << 30
"""A process may have so much beyond its limit of private memory: its program's own pages, and memory that it shares."""
_FIRST_TO_GO = "1000"
"""The highest value of oom_score_adj, in proc(5)."""
_HELLO_BYTES = 1 << 16
"""A hello takes less: it is some lines of text."""
START_LIMIT_S = 120.0
"""The time that a Python kernel may take to be imported, perhaps with libraries from a cold disk."""


@dataclass(frozen=True)
class Ending:
    """How a worker stopped answering."""

    hung: bool
    code: int
    """The exit code, or minus the number of the signal, as in subprocess."""
    said: str
    """The end of what it wrote to stderr."""
    ended: str = ""
    """Why we ended it, where it did not end by itself and did not hang."""

    @property
    def from_outside(self) -> bool:
        """True for the signals that others send: an operator, or the system when memory runs out."""
        return not self.hung and not self.ended and self.code in (-signal.SIGKILL, -signal.SIGTERM)

    @property
    def refuses_frame(self) -> bool:
        """True where the worker could not read what it was sent."""
        return self.code == records.BROKEN_FRAME_EXIT and "kernelfuzz worker: broken frame" in self.said

    def __str__(self) -> str:
        if self.hung:
            return "no answer within the time limit"
        if self.ended:
            return self.ended
        how = f"killed by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with exit code {self.code}"
        return f"{how}{': ' + self.said if self.said else ''}"


class EndedError(Exception):
    """The process died or hung."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending = ending


class Process:
    """A running worker. `limit` is the longest silence in seconds that is taken for work; `memory` bounds what it may
    allocate, in bytes; it has at least `start_limit` seconds to start, which is no case."""

    def __init__(
        self, start: Start, limit: float, memory: int | None = MEMORY_LIMIT, start_limit: float = START_LIMIT_S
    ) -> None:
        self._limit = limit
        self._start_limit = max(limit, start_limit)
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
        self.pid = self._child.pid
        """The process that runs the kernel; until it has said hello, the one that was started, its keeper."""
        self._memory = memory
        self._prepare()
        self._bound()

    def hello(self) -> str:
        """The text of the hello frame. Raises EndedError."""
        magic, size = records.HELLO.unpack(self._take(records.HELLO.size, self._start_limit))
        if magic != records.HELLO_MAGIC or size > _HELLO_BYTES:
            self.refuse_answer(f"it is no worker: it starts with {magic:08x}")
        text = self._take(size).decode(errors="replace")
        said = re.search(r"^pid=(\d+)$", text, re.MULTILINE)
        if said is not None:
            self.pid = int(said[1])
            self._bound()
        return text

    def exchange(self, cases: Sequence[bytes], audits: int = records.AUDIT_LAST) -> Iterator[Response]:
        """Send the encoded cases as one frame, yield the responses as they come. Raises EndedError."""
        # The worker's own alarm is only for when we are gone; ours comes first.
        self._send(frames.encode_frame(cases, math.ceil(self._limit) + 1, audits))
        for index in range(len(cases)):
            header = self._take(records.RESPONSE.size)
            try:
                response = frames.decode_response(header, self._take(frames.payload_size(header)))
            except AnswerError as error:
                self.refuse_answer(str(error))
            if response.position != index:
                self.refuse_answer(f"answer {response.position} came in place of {index}")
            yield response

    def refuse(self, why: str) -> NoReturn:
        """End a process that is of no more use: raises EndedError."""
        self._end(ended=why)

    def refuse_answer(self, why: str) -> NoReturn:
        """End a process that answered with what is no answer: raises EndedError."""
        self.refuse(f"a broken answer: {why} (the kernel wrote to its worker's descriptors, or over its memory)")

    def kill(self) -> None:
        """End the process, whatever it is doing. Another thread that waits for its answer gets EndedError."""
        with contextlib.suppress(OSError):
            self._child.terminate()

    def close(self) -> None:
        """End the process and release its pipes. Only for the thread that talks to it; may be called twice."""
        if not self._errors.closed:
            self._finish()
            self._release()

    def _finish(self) -> int:
        """End the process, unless it has ended. Returns its exit code."""
        self.kill()
        try:
            return self._child.wait(_LAST_BREATH_S)
        except subprocess.TimeoutExpired:  # it is stopped, or its keeper is
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                self._child.kill()
            return self._child.wait()

    def _release(self) -> None:
        self._errors.close()
        os.close(self._to)
        os.close(self._from)

    def _prepare(self) -> None:
        for descriptor in (self._to, self._from):
            os.set_blocking(descriptor, False)
            with contextlib.suppress(OSError):  # beyond the user's quota the default size has to do
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def _bound(self) -> None:
        """Limit what the process may take, and let the system end it first where memory runs out."""
        with contextlib.suppress(OSError):
            if self._memory is not None:
                resource.prlimit(self.pid, resource.RLIMIT_DATA, (self._memory, self._memory))
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, 0))
            Path(f"/proc/{self.pid}/oom_score_adj").write_text(_FIRST_TO_GO)

    def _send(self, frame: bytes) -> None:
        # A system call lets another thread of ours go first, so there are as few as can be: the pipe is nearly always
        # empty before a frame, and its answers are nearly never there at once.
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                self._await(self._to, select.POLLOUT, time.monotonic() + self._limit)
            except BrokenPipeError:
                self._end()

    def _take(self, size: int, limit: float | None = None) -> bytes:
        """The next `size` bytes. The time limit starts anew with every call: each belongs to one case."""
        deadline = time.monotonic() + (self._limit if limit is None else limit)
        while len(self._received) < size:
            self._receive(deadline)
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self, deadline: float) -> None:
        self._await(self._from, select.POLLIN, deadline)
        data = os.read(self._from, _READ_BYTES)
        if not data:
            self._end()
        self._received += data

    def _await(self, descriptor: int, what: int, deadline: float) -> None:
        """Wait until a pipe can be read or written. Raises EndedError where that takes too long or too much memory."""
        while not _ready(descriptor, what, min(_LOOK_S, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                self._end(hung=True)
            if self._memory is not None and self._resident() > self._memory + _SHARED_BYTES:
                self._end(ended=f"it took more than {(self._memory + _SHARED_BYTES) >> 30} GiB of memory")

    def _resident(self) -> int:
        """Bytes of memory that the process has, shared ones too: no limit of the system bounds those."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    def _end(self, hung: bool = False, ended: str = "") -> NoReturn:
        """Raise EndedError, with the process gone."""
        if hung or ended:
            code = self._finish()
        else:
            try:
                code = self._child.wait(_LAST_BREATH_S)
            except subprocess.TimeoutExpired:  # it closed its pipe and lives on
                code = self._finish()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _TAIL_BYTES))
        said = self._errors.read().decode(errors="replace").strip()
        self.close()
        raise EndedError(Ending(hung or code == -signal.SIGALRM, code, said, ended))


def _ready(descriptor: int, what: int, seconds: float) -> bool:
    """Wait until a pipe can be read or written, or was closed at its other end; False where it takes too long."""
    poll = select.poll()
    poll.register(descriptor, what)
    return bool(poll.poll(seconds * 1000))
