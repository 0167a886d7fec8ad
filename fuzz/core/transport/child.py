"""Worker processes of the operating system: how one is started, and ended with everything that it started."""

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
    """A process that was started; a Popen is one."""

    pid: int

    def terminate(self) -> None:
        """End the worker, and whatever it started; from then on `wait` does not take long."""
        ...

    def kill(self) -> None:
        """End it if it does not end by itself."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, or minus the number of the signal. Raises subprocess.TimeoutExpired."""
        ...


Start = Callable[[int, int, int], Child]
"""A function that starts a worker on three descriptors: its stdin, stdout and stderr. It raises OSError."""


def command(
    words: Sequence[str], environment: Mapping[str, str] | None = None, sandbox: Sandbox | None = None
) -> Start:  # fmt: skip
    """Return how to start a worker that is a program of its own."""
    own = os.environ if environment is None else environment
    given = words if sandbox is None else sandbox.command(words, own)

    def start(stdin: int, stdout: int, stderr: int) -> Child:
        # A session of its own: an interrupt from the keyboard is for us, not for workers.
        worker = partial(
            _Leader, given, stdin=stdin, stdout=stdout, stderr=stderr, env=own if sandbox is None else BARE,
            start_new_session=True,
        )  # fmt: skip
        return worker() if sandbox is None else started(worker)

    return start


class _Leader(subprocess.Popen[bytes]):
    """A program and what it starts: a tool that watches a worker would leave the worker behind, with its end of our
    pipes."""

    def terminate(self) -> None:
        """End its whole session, whose first process it is."""
        if self.returncode is None:  # not waited for yet, so that no other process has its number
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    kill = terminate


class _RemoteChild(subprocess.Popen[bytes]):
    """The program that runs a worker on another machine, where a shell is above it."""

    def wait(self, timeout: float | None = None) -> int:
        return _of_shell(super().wait(timeout))


@dataclass(frozen=True)
class Remote:
    """How to start a worker on another machine: a Start."""

    words: Sequence[str]

    def __call__(self, stdin: int, stdout: int, stderr: int) -> Child:
        return _RemoteChild(self.words, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)


_MARK = "KERNELFUZZ_WORKER"
_MARKS = itertools.count()
_SIGNALLED = 128
CUT = 255
"""The exit code of ssh if its connection ended; nothing else that runs on another machine has it."""


def _of_shell(code: int) -> int:
    """Return the exit code of what ran below a shell or a sandbox, which adds 128 to the number of a signal."""
    return _SIGNALLED - code if _SIGNALLED < code < _SIGNALLED + signal.NSIG else code


class CompiledWorker(subprocess.Popen[bytes]):
    """The program of a C worker. The protocol is not on its stdin and stdout, since libraries may print there before
    `main`. If it is emulated, the processes that it starts are found by a mark in their environment and ended with it.
    Its keeper cannot do that: under QEMU a process cannot become the reaper of its descendants."""

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
        """`environment` is added to ours."""
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
        """End all of its session: what starts a worker may wait for another program, which has an end of our pipes."""
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
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
