"""Worker processes of the operating system: how they are started, and how they are ended with all their descendants."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from fuzz.core.transport.sandbox import BARE, Sandbox, started


class Child(Protocol):
    """A process that was started, such as a Popen."""

    pid: int

    def terminate(self) -> None:
        """End the worker and the processes that it started. After this, `wait` returns soon."""
        ...

    def kill(self) -> None:
        """End the process if it does not end by itself."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, or minus the number of the signal. Raise subprocess.TimeoutExpired."""
        ...


Start = Callable[[int, int, int], Child]
"""A function that starts a worker, given descriptors for its stdin, stdout and stderr. It may raise OSError."""


def command(
    words: Sequence[str], environment: Mapping[str, str] | None = None, sandbox: Sandbox | None = None
) -> Start:  # fmt: skip
    """Return a function that starts the program `words` as a worker, in the sandbox if one is given."""
    own = os.environ if environment is None else environment
    given = words if sandbox is None else sandbox.command(words, own)

    def start(stdin: int, stdout: int, stderr: int) -> Child:
        # The worker gets its own session, so that an interrupt from the keyboard ends only this process.
        worker = partial(
            _Leader, given, stdin=stdin, stdout=stdout, stderr=stderr, env=own if sandbox is None else BARE,
            start_new_session=True,
        )  # fmt: skip
        return worker() if sandbox is None else started(worker)

    return start


class _Leader(subprocess.Popen[bytes]):
    """A program and the processes that it starts. If only the program were ended, a tool that watches a worker would
    leave the worker behind, which would keep its ends of the pipes open."""

    def terminate(self) -> None:
        """End the whole session of the program, which is its first process."""
        if self.returncode is None:  # it was not waited for, so no other process can have its number
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    kill = terminate


class _RemoteChild(subprocess.Popen[bytes]):
    """The local program, such as ssh, that runs a worker through a shell on another machine."""

    def wait(self, timeout: float | None = None) -> int:
        return _of_shell(super().wait(timeout))


@dataclass(frozen=True)
class Remote:
    """A Start that starts a worker on another machine."""

    words: Sequence[str]

    def __call__(self, stdin: int, stdout: int, stderr: int) -> Child:
        return _RemoteChild(self.words, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)


_MARK = "KERNELFUZZ_WORKER"
_MARKS = itertools.count()
_SIGNALLED = 128
CUT = 255
"""The exit code of ssh if its connection ended. No other program on another machine ends with this code."""


def _of_shell(code: int) -> int:
    """Return the exit code of a program in a shell or a sandbox, which reports a signal as 128 plus its number."""
    return _SIGNALLED - code if _SIGNALLED < code < _SIGNALLED + signal.NSIG else code


class CompiledWorker(subprocess.Popen[bytes]):
    """The program of a C worker. The protocol does not use its stdin and stdout, since libraries may print there before
    `main`. If the worker is emulated, this class finds its descendants by a mark in their environment and ends them. A
    native worker has a keeper that does so, but under QEMU a process cannot become the reaper of its descendants."""

    def __init__(
        self,
        words: Sequence[str],
        emulated: bool,
        environment: Mapping[str, str],
        journal: int,
        sandbox: Sandbox | None,
        requests: int,
        answers: int,
        stderr: int,
    ) -> None:
        """Start the program. `environment` is added to the environment of this process."""
        self._mark = f"{_MARK}={os.getpid()}.{next(_MARKS)}" if emulated and sandbox is None else ""
        self._sandboxed = sandbox is not None
        given, own = [*words, str(requests), str(answers), str(journal)], {**os.environ, **environment}
        if self._mark:
            own[_MARK] = self._mark.partition("=")[2]
        super().__init__(
            given if sandbox is None else sandbox.command(given, own),
            stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
            pass_fds=(requests, answers, journal), start_new_session=True,
            env=own if sandbox is None else BARE,
        )  # fmt: skip

    def terminate(self) -> None:
        """End the whole session of the worker. The program that starts the worker may be waiting for another process
        that holds an end of the pipes."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        if self._mark:
            self._end_descendants()
        return _of_shell(code) if self._sandboxed else code

    def _end_descendants(self) -> None:
        mark = f"{self._mark}\0".encode()
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
