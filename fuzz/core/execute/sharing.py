"""Processes that several workers use one after the other. On a GPU each process has a context, which takes a second to
make and half a gigabyte."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fuzz.core.adapters.target import Program, Target
from fuzz.core.transport.process import Process


class Lender(Protocol):
    """A worker that may have a process to give away."""

    def lend(self) -> Process | None:
        """Return and give up the worker's process, or return None if it has no idle one."""
        ...


class Sharing:
    """The workers of a pool that can share processes. Those whose programs have the same household share one process,
    which belongs to its last user until another of them needs it."""

    def __init__(self) -> None:
        self._workers: dict[str, dict[Lender, None]] = defaultdict(dict)
        self._starting = threading.Lock()

    @contextmanager
    def in_turn(self, target: Target) -> Iterator[None]:
        """While this context lasts, start no other target that shares processes, so that each target can take over the
        process of the one before."""
        if not target.shares:
            yield
            return
        with self._starting:
            yield

    def join(self, worker: Lender, program: Program) -> None:
        """Let others take over the processes of a worker. The worker that started last is asked first."""
        if program.household:
            members = self._workers[program.household]
            members.pop(worker, None)
            members[worker] = None

    def leave(self, worker: Lender, program: Program) -> None:
        """Forget a worker."""
        self._workers.get(program.household, {}).pop(worker, None)

    def taken_over(self, worker: Lender, program: Program) -> Process | None:
        """Return the idle process of another worker of the household, or None."""
        others = [each for each in self._workers.get(program.household, ()) if each is not worker]
        return next((found for each in reversed(others) if (found := each.lend()) is not None), None)
