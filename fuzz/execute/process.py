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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuzz.execute import frames
from fuzz.execute.frames import FrameError, Response

MEMORY_LIMIT = 4 << 30
"""bytes of private writable memory. Not RLIMIT_AS: an emulator reserves its guest's whole address space."""
FILE_LIMIT = 64 << 20
"""bytes; what a kernel prints goes to a temporary file, which must not fill the disk."""

_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_BROKEN_FRAME_EXIT = 70
_TAIL_BYTES = 2000
_LAST_BREATH_S = 2.0


@dataclass(frozen=True)
class Ending:
    """How a worker stopped answering."""

    hung: bool
    code: int
    """exit code, or minus the number of the signal, as in subprocess."""
    said: str
    """end of what it wrote to stderr."""

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


class Process:
    """A running worker. `limit` is the longest silence in seconds that is taken for work."""

    def __init__(self, command: Sequence[str], limit: float) -> None:
        self._limit = limit
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        try:
            # A session of its own: an interrupt from the keyboard is ours to handle, not the workers'.
            self._popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
                start_new_session=True,
            )  # fmt: skip
        except OSError:
            self._errors.close()
            raise
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._to, self._from = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        self._received = bytearray()
        self._prepare()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def hello(self) -> str:
        """The text of the hello frame. Raises EndedError or FrameError."""
        magic, size = frames.HELLO.unpack(self._take(frames.HELLO.size))
        if magic != frames.HELLO_MAGIC:
            raise FrameError(f"{self._popen.args!r} is no worker: it says {magic:08x}")
        return self._take(size).decode()

    def exchange(self, cases: Sequence[bytes]) -> Iterator[Response]:
        """Send the encoded cases as one frame, yield the responses as they come. Raises EndedError or FrameError."""
        # The worker's own alarm is only for when we are gone; ours comes first.
        self._send(frames.encode_frame(cases, limit_s=math.ceil(self._limit) + 1))
        for index in range(len(cases)):
            header = self._take(frames.RESPONSE.size)
            response = frames.decode_response(header, self._take(frames.payload_size(header)))
            if response.position != index:
                raise FrameError(f"response {response.position} came in place of {index}")
            yield response

    def kill(self) -> None:
        """End the process, whatever it is doing. Another thread that waits for its answer gets EndedError."""
        with contextlib.suppress(OSError):
            self._popen.kill()

    def close(self) -> None:
        """End the process and release its pipes. Only for the thread that talks to it; may be called twice."""
        self.kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout, self._errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def _prepare(self) -> None:
        for descriptor in (self._to, self._from):
            os.set_blocking(descriptor, False)
            with contextlib.suppress(OSError):  # beyond the user's quota the default size has to do
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(self.pid, resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, 0))

    def _send(self, frame: bytes) -> None:
        rest = memoryview(frame)
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        while rest:
            if not poll.poll(self._limit * 1000):
                self._end(hung=True)
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self._end(hung=False)

    def _take(self, size: int) -> bytes:
        """The next `size` bytes. The time limit starts anew with every call: each belongs to one case."""
        deadline = time.monotonic() + self._limit
        while len(self._received) < size:
            self._receive(deadline)
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self, deadline: float) -> None:
        try:
            data = os.read(self._from, _READ_BYTES)
        except BlockingIOError:
            poll = select.poll()
            poll.register(self._from, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self._end(hung=True)
            return
        if not data:
            self._end(hung=False)
        self._received += data

    def _end(self, hung: bool) -> None:
        """Raise EndedError, with the process gone."""
        if hung:
            self._popen.kill()
        try:
            code = self._popen.wait(_LAST_BREATH_S)
        except subprocess.TimeoutExpired:  # it closed its pipe and lives on
            self._popen.kill()
            code = self._popen.wait()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _TAIL_BYTES))
        said = self._errors.read().decode(errors="replace").strip()
        self.close()
        if code == _BROKEN_FRAME_EXIT and "kernelfuzz worker: " in said:
            raise FrameError(said)
        raise EndedError(Ending(hung or code == -signal.SIGALRM, code, said))
