"""A command that runs beside a test, and questions to the state of a nightly."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from fuzz.tests.conftest import CHECKOUT, HANG_S


class Running(subprocess.Popen[str]):
    """A process that does not outlive its `with` block: left running, with its pipes open, it would be held against
    whichever test runs when it is collected."""

    def __init__(self, command: list[str], folder: Path, stderr: int = subprocess.PIPE) -> None:
        super().__init__(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
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


def start(folder: Path, *options: str) -> Running:
    """`kernelfuzz nightly` on the folder's `pack` and `state`."""
    return Running([sys.executable, "-m", "fuzz", "nightly", "--state", "state", "--pack", "pack", *options], folder)


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


def read_until(wanted: str, said: IO[str] | None) -> str:
    """The lines up to the first that has these words; fails where the stream ends without."""
    assert said is not None
    lines = list[str]()
    while not lines or wanted not in lines[-1]:
        lines.append(said.readline())
        assert lines[-1], "".join(lines)
    return "".join(lines)
