"""A command that runs beside a test, and questions to the state of a nightly."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from fuzz.cli import main
from fuzz.core.transport.fork_server import fork_server
from fuzz.tests.conftest import CHECKOUT, HANG_S

KERNELFUZZ = [sys.executable, "-m", "fuzz"]


class Running(subprocess.Popen[str]):
    """A process that does not outlive its `with` block: left running, with its pipes open, it would be held against
    whichever test runs when it is collected."""

    def __init__(self, command: list[str], folder: Path, stderr: int = subprocess.PIPE, **more: str) -> None:
        environment, words = {**os.environ, "PYTHONPATH": str(CHECKOUT), **more}, command[len(KERNELFUZZ) :]
        forked = command[: len(KERNELFUZZ)] == KERNELFUZZ
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions of Python warn of threads, and pytest-xdist has one
            super().__init__(
                command, cwd=folder, env=environment, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                preexec_fn=(lambda: become(words, environment)) if forked else None,
            )  # fmt: skip

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.poll() is None:
            self.kill()
        super().__exit__(kind, value, traceback)

    def ended(self) -> tuple[str, str]:
        """Wait for its end; what it printed to both streams since it was last read."""
        return self.communicate(timeout=HANG_S)


def become(words: Sequence[str], environment: Mapping[str, str], kept: Sequence[int] = ()) -> None:
    """Run the command line in this process, which was just forked, instead of another program: to import the engine
    anew takes longer than most commands. It has some descriptors besides the usual ones."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)  # as Python does when it starts
    if "torch" in sys.modules:  # its threads are not here, and OpenMP would wait for them
        sys.modules["torch"].set_num_threads(1)
    gc.freeze()  # an unreachable file of the test's would be collected here, and close a descriptor of the command's
    atexit._clear()
    faulthandler.disable()
    fork_server.cache_clear()
    for first, last in pairwise([2, *sorted(kept), 1 << 16]):
        os.closerange(first + 1, last)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["kernelfuzz", *words]
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def start(folder: Path, *options: str) -> Running:
    """`kernelfuzz nightly` on the folder's `pack` and `state`."""
    return Running([*KERNELFUZZ, "nightly", "--state", "state", "--pack", "pack", *options], folder)


def finished(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kernelfuzz` in a folder, to its end."""
    with Running([*KERNELFUZZ, *arguments], folder, COLUMNS="200") as run:
        said, errors = run.ended()
    return subprocess.CompletedProcess(arguments, run.returncode, said, errors)


def finish(folder: Path, *options: str) -> tuple[int, str, str]:
    """The same to its end: exit code and both streams."""
    with start(folder, *options) as run:
        said, progress = run.ended()
    return run.returncode, said, progress


def ask(folder: Path, question: str) -> list[tuple[Any, ...]]:
    path = folder / "state" / "state.sqlite"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.OperationalError):
        return connection.execute(question).fetchall()
    return []


def judged(folder: Path) -> int:
    return next(iter(ask(folder, "SELECT coalesce(sum(judged), 0) FROM batch")), (0,))[0]  # type: ignore[no-any-return]


def until(condition: Callable[[], bool], run: Running) -> None:
    """Wait for what a running command does; fails where it ends without."""
    deadline = time.monotonic() + HANG_S
    while not condition() and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert condition(), run.communicate()[1] if run.poll() is not None else "it hangs"


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what other processes do; fails where it never comes true."""
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def until_ended(*pids: int) -> None:
    """Wait for the end of processes: one that was killed is there until the system has seen to it."""
    eventually(lambda: not any(map(_lives, pids)))


def _lives(pid: int) -> bool:
    """Whether a process is there and no zombie, which it stays until its parent collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it may be gone between opening and reading
        return False


def read_until(wanted: str, said: IO[str] | None) -> str:
    """The lines up to the first that has these words; fails where the stream ends without."""
    assert said is not None
    lines = list[str]()
    while not lines or wanted not in lines[-1]:
        lines.append(said.readline())
        assert lines[-1], "".join(lines)
    return "".join(lines)
