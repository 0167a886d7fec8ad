"""Judging in processes: each entry of a list in one of its own, since what is judged may crash or take too long."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, TypeVar

Found = TypeVar("Found")


def in_processes(
    names: Sequence[str], answers: Callable[[str], Iterable[Found]], lost: Callable[[str, str], Found], jobs: int,
    limit_s: float, start: str = "fork",
) -> Iterator[tuple[str, Sequence[Found]]]:  # fmt: skip
    """Yield the answers about each name. A process is killed at the limit; what it found until then counts, and `lost`
    makes an answer of the name and why it ended."""
    import torch

    context: Any = get_context(start)
    torch.set_num_threads(1)  # a forked process has no others
    waiting, running = [*reversed(names)], dict[Any, tuple[str, Any, float, list[Found]]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            ours, theirs = context.Pipe(duplex=False)
            name = waiting.pop()
            process = context.Process(target=_send, args=(theirs, name, answers), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of threads at a fork, and of torch in the process
                process.start()
            theirs.close()
            running[ours] = name, process, monotonic() + limit_s, []
        for ours in list[Any](wait([*running], 0.2)):
            name, process, until, found = running[ours]
            try:
                found.append(ours.recv())
            except EOFError:
                process.join()
                del running[ours]
                if process.exitcode:
                    why = "takes too long" if monotonic() > until else f"its process ended with {process.exitcode}"
                    found.append(lost(name, why))
                yield name, found
        for _, process, until, _ in running.values():
            if monotonic() > until:
                process.kill()


def _send(to: Connection, name: str, answers: Callable[[str], Iterable[Any]]) -> None:
    for each in answers(name):
        to.send(each)
