"""Hunters: processes that each hunt for one mutant after the other, with workers of their own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from fuzz.base.errors import InternalError
from fuzz.base.kernel import Mutant
from fuzz.findings.book import error_words
from fuzz.uses.search.stopping import Interruption
from fuzz.uses.selftest.report import Hunted

_LOOK_S = 0.25
"""Seconds between two looks whether somebody wants to stop."""
_FORK = get_context("fork")
"""It inherits the pack, whose kernels no message can carry."""


def hunted_by(
    processes: int, mutants: Sequence[Mutant], hunt: Callable[[Mutant], Hunted], say: Callable[[str], None],
    stop: Interruption,
) -> Iterator[Hunted]:  # fmt: skip
    """What became of each mutant, in any order, until a stop is wanted: hunts that are under way are dropped then,
    since their mutant may just not have been found yet. Raises InternalError where a hunt comes upon an error of ours.
    """
    left, hunting = list(enumerate(mutants, start=1)), dict[Connection, str]()
    members = [_forked(hunt, mutants) for _ in range(min(processes, len(mutants)))]
    try:
        for connection, _ in members:
            _send(connection, left, len(mutants), say, hunting)
        while hunting and not stop.wanted:
            ready = wait(list(hunting), _LOOK_S)
            for connection in [each for each in hunting if each in ready]:
                name = hunting.pop(connection)
                try:
                    head = json.loads(connection.recv_bytes())
                except (EOFError, OSError):
                    raise InternalError(f"{name}: the process that hunted for it was ended from outside") from None
                if "error" in head:
                    raise InternalError(f"{name}: {head['error']}")
                yield Hunted.from_facts(head)
                _send(connection, left, len(mutants), say, hunting)
    finally:
        for connection, process in members:
            connection.close()
            process.kill()
            process.join()


def _send(
    connection: Connection, left: list[tuple[int, Mutant]], total: int, say: Callable[[str], None],
    hunting: dict[Connection, str],
) -> None:  # fmt: skip
    """Give the process the next mutant, if there is one."""
    if left:
        number, mutant = left.pop(0)
        say(f"[{number}/{total}] {mutant.name}: {mutant.trigger}")
        hunting[connection] = mutant.name
        connection.send_bytes(str(number - 1).encode())


def _forked(hunt: Callable[[Mutant], Hunted], mutants: Sequence[Mutant]) -> tuple[Connection, BaseProcess]:
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_serve, args=(theirs, ours, hunt, mutants), name="hunter", daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _serve(
    connection: Connection, other: Connection, hunt: Callable[[Mutant], Hunted], mutants: Sequence[Mutant]
) -> None:
    """Hunt for what is asked for until the connection is closed at its other end."""
    other.close()
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, OSError):
        while True:
            mutant = mutants[int(connection.recv_bytes())]
            try:
                answer = hunt(mutant).facts
            except Exception as error:
                answer = {"error": error_words(error)}
            connection.send_bytes(json.dumps(answer).encode())
