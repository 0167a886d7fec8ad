"""The folder of a nightly state: what is in it, what can be wrong with it, and its lock, which one job holds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz.base.errors import UsageError
from fuzz.base.text import printable


class StateError(UsageError):
    """A state that cannot be used as it is. The message says what to do, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class BrokenStateError(StateError):
    """A state whose content is damaged, or was never written by kernelfuzz."""


class FencedError(StateError):
    """Another session has taken over the shards of a night."""

    def __init__(self, night: int) -> None:
        super().__init__(f"night {night} goes on elsewhere: what this process found since then is dropped")


DATABASE, FINDINGS, PAGE = "state.sqlite", "findings", "report.html"
"""The names of what a state folder holds."""


def make_state(state: Path) -> None:
    """Make the folder of a state where there is none. Raises StateError."""
    try:
        (state / FINDINGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"--state {state}: cannot be written: {error.strerror}") from error


def latest_state(state: Path) -> Path:
    """The database of a state in which some night was run. Raises StateError where none was."""
    path = state / DATABASE
    if not path.exists():
        if (state / PAGE).exists():
            raise StateError(f"{state}: its nights are in the store of --store: kernelfuzz report URL")
        raise StateError(f"{state}: no night was ever run there")
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; StateError, naming the process, where another job holds it.

    The kernel releases the lock with the process, however it ends: a killed job leaves no stale lock behind. Processes
    that are forked meanwhile do not have it.
    """
    path = folder / "nightly.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise StateError(f"--state {folder}: {path.name} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise StateError(
                f"--state {folder}: in use by another nightly{f', process {holder}' if holder else ''}: "
                "wait for it, or give another folder"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
