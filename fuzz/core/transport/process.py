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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from fuzz.core.transport import frames, records, sandbox
from fuzz.core.transport.child import CUT, Start
from fuzz.core.transport.ending import EndedError, Ending
from fuzz.core.transport.frames import AnswerError, Response
from fuzz.core.transport.journal import Journal
from fuzz.core.transport.steps import Pause, Steps
from fuzz.core.transport.taken import Taken

MEMORY_LIMIT = 4 << 30
"""The limit of a worker's private writable memory in bytes. It is not RLIMIT_AS, since an emulator reserves the whole
address space of its guest."""
FILE_LIMIT = 64 << 20
"""The limit of a file in bytes. A kernel prints to a temporary file, which must not fill the disk."""

_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_TAIL_BYTES = 2000
_PRINTED_BYTES = 1 << 20
"""The printed bytes above which a kernel's output is dropped between two frames. Only its end is ever shown."""
_LAST_BREATH_S = 2.0
_LOOK_S = 0.2
"""The seconds between two looks at a process's memory. A process cannot write much more than a GiB in that time."""
_SHARED_BYTES = 1 << 30
"""The bytes that a process may use beyond its private memory, for its program's pages and shared memory."""
_FIRST_TO_GO = "1000"
"""The highest value of oom_score_adj, see proc(5). The system ends such a process first."""
_HELLO_BYTES = 1 << 18
"""The largest size of a hello in bytes. A hello is some lines of text, one of which may have many configurations."""
_ANSWER_S = 60.0
"""The seconds to wait for the rest of an answer, however busy the machine is. A GB takes some seconds. Chosen."""
START_LIMIT_S = 120.0
"""The seconds that importing a Python kernel may take, perhaps with libraries from a cold disk. Chosen."""


_OVERWRITTEN = "the kernel wrote to its worker's descriptors, or over its memory"
_PRINTED = "its stdout has nothing but answers: what it prints belongs on stderr"


class Process:
    """A running worker. `limit` is the longest silence in seconds for which the worker counts as working. `memory` is
    the number of bytes that the worker may allocate. `start_limit` is the least number of seconds that its start may
    take. `journal` is shared with the worker; without one, the worker sends each answer at once. The process id of a
    `sandboxed` worker here differs from the one that it states. A `remote` worker runs on the machine of that name, and
    has no process id here. A `foreign` worker is a program of others, so that errors in its answers are its own."""

    def __init__(
        self, start: Start, limit: float, memory: int | None = MEMORY_LIMIT, start_limit: float = START_LIMIT_S,
        journal: Journal | None = None, sandboxed: bool = False, remote: str = "", foreign: bool = False,
    ) -> None:  # fmt: skip
        self.foreign = foreign
        self._journal = journal
        self._sandboxed, self._remote = sandboxed, remote
        self._count = 0
        self._limit = limit
        self.patience = limit
        """The seconds of silence in a case after which the worker is ended. At most the limit."""
        self.start_limit = max(limit, start_limit)
        """The seconds after which the worker must have sent its hello."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        fcntl.fcntl(self._errors, fcntl.F_SETFL, fcntl.fcntl(self._errors, fcntl.F_GETFL) | os.O_APPEND)
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
            if journal is not None:
                os.close(journal.descriptor)
        self._received = bytearray()
        self._longest: Callable[[int], int] = frames.unbounded
        self._reached = 0
        """The number of cases of the frame that the worker has reported as begun."""
        self._taken = Taken()
        self._ending = Ending(False, -signal.SIGKILL, "")
        """How the worker ended, once it has ended. Before that: how it will have ended if `close` ends it."""
        self.pid = self._child.pid
        """The id of the process that runs the kernel. Until the hello, it is that of the keeper, which was started."""
        self._memory = memory
        self._prepare()
        self._bound()

    def hello(self) -> Steps[str]:
        """Return the text of the worker's hello. Raise EndedError."""
        magic, size = records.HELLO.unpack((yield from self._take(records.HELLO.size, self.start_limit)))
        if magic != records.HELLO_MAGIC or size > _HELLO_BYTES:
            self.refuse_answer(f"it is no worker: it starts with {magic:08x}")
        text = (yield from self._take(size, self._limit)).decode(errors="replace")
        said = re.search(r"^pid=(\d{1,7})$", text, re.MULTILINE)
        if said is not None and not self._remote:
            self.pid = sandbox.outside(self._child.pid, int(said[1])) if self._sandboxed else int(said[1])
            self._bound()
        return text

    def load(self, spec: str, limit: float) -> Steps[str]:
        """Have the worker run another kernel from now on, with this limit for its cases, and return the text of the new
        hello. Raise EndedError."""
        self._limit = self.patience = limit
        self.start_limit = max(limit, START_LIMIT_S)
        self._taken.begin(self.pid)
        yield from self._send(frames.encode_load(spec))
        return (yield from self.hello())

    def exchange(
        self, cases: Sequence[bytes], take: Callable[[Sequence[Response]], None], audits: int = records.AUDIT_LAST,
        longest: Callable[[int], int] = frames.unbounded,
    ) -> Steps[None]:  # fmt: skip
        """Send the encoded cases as one frame, and pass responses to `take` as they come, some at a time. An answer to
        the case at index i may have up to `longest(i)` bytes. Raise EndedError."""
        self._refuse_unasked()
        if os.fstat(self._errors.fileno()).st_size > _PRINTED_BYTES:
            self._errors.truncate(0)  # the file is open for appending, so further output starts at its beginning
        if self._journal is not None:
            self._journal.clear()
        self._count, self._longest, self._reached = len(cases), longest, 0
        self._taken.begin(self.pid)
        frame = frames.encode_frame(cases, math.ceil(self._limit) + records.GRACE_S, audits)
        answered = 0
        while answered < len(cases):
            found, error = yield from self._answers(frame, answered)
            take(found)
            if error is not None:
                raise error
            answered += len(found)
            frame = b""
        self._taken.look(self.pid)

    @property
    def begun(self) -> int:
        """The number of cases of the frame that the worker has begun; 0 without a journal."""
        return min(self._begun, self._count)

    @property
    def _begun(self) -> int:
        """The number of begun cases that the worker reports. It is one more than the frame has once the last case has
        returned and its process is checked. It never decreases: otherwise a kernel could make the engine wait
        forever."""
        told = 0 if self._journal is None else min(self._journal.begun, self._count + 1)
        self._reached = max(self._reached, told)
        return self._reached

    @property
    def _silence(self) -> float:
        """The seconds of silence after which the worker is ended. They are more after the last case of a frame, which
        is then repeated thousands of times to find a leak."""
        return self._limit if self._begun > self._count else self.patience

    def _refuse_unasked(self) -> None:
        """End a worker that has answered before it was asked. Raise EndedError if it has."""
        with contextlib.suppress(BlockingIOError):
            self._received += os.read(self._from, _READ_BYTES)
        if self._received:
            self.refuse_answer("it came before anything was asked")

    def refuse(self, why: str, unplaced: bool = False) -> NoReturn:
        """End a worker that is of no more use. Always raise EndedError."""
        self._end(ended=why, unplaced=unplaced)

    def refuse_answer(self, why: str, unplaced: bool = False) -> NoReturn:
        """End a worker that sent bytes which are no answer. Always raise EndedError."""
        self.refuse(f"a broken answer: {why} ({_PRINTED if self.foreign else _OVERWRITTEN})", unplaced)

    def kill(self) -> None:
        """End the worker, whatever it is doing. Another thread that waits for its answer gets EndedError."""
        with contextlib.suppress(OSError):
            self._child.terminate()

    def close(self) -> None:
        """End the worker and release its pipes. Only the thread that talks to the worker may call this, also twice."""
        if not self._errors.closed:
            self._finish()
            self._release()

    def _finish(self) -> int:
        """End the worker, unless it has ended, and return its exit code."""
        if self._sandboxed:
            sandbox.end_excess(self.pid)
        self.kill()
        try:
            return self._child.wait(_LAST_BREATH_S)
        except subprocess.TimeoutExpired:  # the process, or its keeper, is stopped
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
            with contextlib.suppress(OSError):  # beyond the user's quota, keep the default size
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def _bound(self) -> None:
        """Limit the resources of the worker, and let the system end it first if memory runs out."""
        with contextlib.suppress(OSError):
            if self._memory is not None:
                resource.prlimit(self.pid, resource.RLIMIT_DATA, (self._memory, self._memory))
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, 0))
            Path(f"/proc/{self.pid}/oom_score_adj").write_text(_FIRST_TO_GO)

    def _send(self, frame: bytes) -> Steps[None]:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                yield from self._await(self._to, select.POLLOUT, self._taken.clock + self.patience)
            except BrokenPipeError:
                self._end()

    def _take(self, size: int, limit: float) -> Steps[bytes]:
        """Return the next `size` bytes of a hello."""
        deadline = self._taken.clock + limit
        while len(self._received) < size:
            yield from self._receive(deadline)
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _answers(self, frame: bytes, first: int) -> Steps[tuple[Sequence[Response], EndedError | None]]:
        """Send the frame, and return the next answers from index `first` on. If an error comes with them, they are the
        last."""
        try:
            yield from self._send(frame)
            deadline, found = self._taken.clock + self._silence, list[Response]()
            answer_by = 0.0
            while not found:
                yield from self._receive(deadline)
                found, size = frames.decode_responses(self._received, first, self._count, self._longest)
                answer_by = answer_by or max(deadline, self._taken.clock + _ANSWER_S)
                deadline = answer_by
                if not found and self._taken.clock > deadline:  # else a byte now and then would keep it alive
                    self._end(hung=True)
            del self._received[:size]
            return found, None
        except AnswerError as error:
            unplaced = self.begun > first + len(error.before) + 1
            try:
                self.refuse_answer(str(error), unplaced)
            except EndedError as ended:
                return error.before, ended
        except EndedError as error:
            found = self._left(first)
            runs = self._journal is not None and self._journal.runs
            lost = self.begun > first + len(found) + runs
            return found, EndedError(replace(error.ending, unplaced=lost))

    def _left(self, first: int) -> list[Response]:
        """Return the answers, from index `first` on, that a worker had not sent when it ended in a case."""
        if self._journal is None or not self._journal.runs:
            return []
        try:
            found = frames.decode_responses(self._journal.answers, first, self._count, self._longest)[0]
        except AnswerError:  # the worker wrote over its own memory
            return []
        return found[: self._count - first - 1]  # without the case that it was running

    def _receive(self, deadline: float) -> Steps[None]:
        yield from self._await(self._from, select.POLLIN, deadline)
        data = os.read(self._from, _READ_BYTES)
        if not data:
            self._end()
        self._received += data

    def _await(self, descriptor: int, what: int, deadline: float) -> Steps[None]:
        """Wait until a pipe can be read or written. Raise EndedError if that takes too long, on the worker's own clock,
        or too much memory. The time limit starts anew when a case is begun."""
        begun = self._begun
        while not (yield Pause(descriptor, what, time.monotonic() + min(deadline - self._taken.clock, _LOOK_S))):
            self._taken.look(self.pid)
            if self._begun != begun:
                begun, deadline = self._begun, self._taken.clock + self._silence
            if self._taken.clock >= deadline:
                self._taken.hung(self._silence)
                self._end(hung=True)
            if self._memory is not None and self._resident() > self._memory + _SHARED_BYTES:
                self._end(ended=f"it took more than {(self._memory + _SHARED_BYTES) >> 30} GiB of memory")
            if self._sandboxed and (excess := sandbox.excess(self.pid)):
                self._end(ended=excess)
        self._taken.heard(self.pid, _LOOK_S)

    def _resident(self) -> int:
        """Return the bytes of memory that the worker uses, with shared memory, which no limit of the system bounds."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    def _end(self, hung: bool = False, ended: str = "", unplaced: bool = False) -> NoReturn:
        """End the worker, if it has not ended, and raise EndedError."""
        if self._errors.closed:  # it ended by itself, and an answer that it left cannot be used
            raise EndedError(replace(self._ending, hung=False, ended=ended, unplaced=unplaced))
        if hung or ended:
            code = self._finish()
        else:
            try:
                code = self._child.wait(_LAST_BREATH_S)
            except subprocess.TimeoutExpired:  # the worker closed its pipe but lives on
                code = self._finish()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _TAIL_BYTES))
        said = self._errors.read().decode(errors="replace").strip()
        self.close()
        early = hung and self.patience < self._limit
        cut = self._remote if code == CUT and not (hung or ended) else ""
        self._ending = Ending(hung or code == -signal.SIGALRM, code, said, ended, unplaced, early, cut)
        raise EndedError(self._ending)
