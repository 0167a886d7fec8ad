"""Processes that are asked about one thing after the other: one that crashes or takes too long harms only its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_MOST = 50
"""The most things that one process is asked about, since what they read stays in its memory. Chosen."""


@dataclass
class AskedProcess(Generic[_T]):
    """A process, and what it answers about the thing that it was asked about last."""

    process: Any
    pipe: Connection
    name: str = ""
    until: float = 0.0
    found: list[_T] = field(default_factory=list)
    """The answers so far."""
    asks: int = 0
    """How often it was asked."""
    ended: str = ""
    """Why the process ended before its last answer."""

    @classmethod
    def started(cls, context: Any, answer: Callable[[str], Iterable[_T]]) -> AskedProcess[_T]:
        """Return a process that waits to be asked."""
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, answer), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of threads at a fork, and of torch in the process
            process.start()
        theirs.close()
        return cls(process, ours)

    def asked(self, name: str, limit_s: float) -> None:
        """Ask about a thing."""
        self.name, self.until, self.found, self.asks = name, monotonic() + limit_s, [], self.asks + 1
        with suppress(BrokenPipeError):  # it has ended already, which is heard next
            self.pipe.send(name)

    def heard(self) -> bool:
        """Take one answer, and return whether there are no more. Notes if the process has ended."""
        try:
            answer = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            late = monotonic() > self.until
            self.ended = "takes too long" if late else f"its process ended with {self.process.exitcode}"
            return True
        self.found.extend([] if answer is None else answer)
        return answer is None

    def closed(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def all_asked(
    names: Sequence[str], answer: Callable[[str], Iterable[_T]], jobs: int, limit_s: float, *, spawns: bool = False
) -> Iterator[AskedProcess[_T]]:
    """Yield, for each name, the process that was asked about it, with its answers. It is killed at the limit. Processes
    are forked, or start anew if `spawns`."""
    import torch

    context: Any = get_context("spawn" if spawns else "fork")
    torch.set_num_threads(1)  # a forked process has no others
    waiting, running, idle = [*reversed(names)], dict[Any, AskedProcess[_T]](), list[AskedProcess[_T]]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                each = idle.pop() if idle else AskedProcess[_T].started(context, answer)
                each.asked(waiting.pop(), limit_s)
                running[each.pipe] = each
            for pipe in list[Any](wait([*running], 0.2)):
                if (each := running[pipe]).heard():
                    yield running.pop(pipe)
                    if each.asks >= _MOST:
                        each.closed()
                    elif not each.ended:
                        idle.append(each)
            for each in running.values():
                if monotonic() > each.until:
                    each.process.kill()
    finally:
        for each in (*idle, *running.values()):
            each.closed()


def _serve(asked: Connection, answer: Callable[[str], Iterable[Any]]) -> None:
    with suppress(EOFError):
        while name := asked.recv():
            for each in answer(name):
                asked.send([each])
            asked.send(None)
