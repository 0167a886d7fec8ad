"""A nightly that runs beside a test, and questions to its state."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.tests.conftest import CHECKOUT


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """`kernelfuzz nightly` on the folder's `pack` and `state`."""
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz", "nightly", "--state", "state", "--pack", "pack", *options],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ask(folder: Path, question: str) -> list[tuple[Any, ...]]:
    path = folder / "state" / "state.sqlite"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.OperationalError):
        return connection.execute(question).fetchall()
    return []


def judged(folder: Path) -> int:
    return next(iter(ask(folder, "SELECT coalesce(sum(judged), 0) FROM batch")), (0,))[0]  # type: ignore[no-any-return]


def until(condition: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition(), run.communicate()[1] if run.poll() is not None else "too slow"
