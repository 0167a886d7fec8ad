"""What a process of a search keeps."""

from __future__ import annotations

import gc
import weakref
from multiprocessing import Pipe

from fuzz.execute.pool import WorkerPool
from fuzz.uses.search.search_process import SearchProcess
from fuzz.uses.search.turn_runner import Report, Terms, TurnRunner


class _Knot:
    """It refers to itself, so that no count of references frees it."""

    def __init__(self) -> None:
        self.itself = self


class _Tying(TurnRunner):
    """Leaves a knot with every batch, as an oracle does."""

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__(pool, [], Terms([]))
        self.left: list[weakref.ref[_Knot]] = []

    def end(self) -> list[Report]:
        self.left.append(weakref.ref(_Knot()))
        return []


def test_what_a_batch_leaves_is_freed_although_python_does_not_look() -> None:
    pool = WorkerPool([])
    turn_runner, member = _Tying(pool), SearchProcess(Pipe()[0], [], Terms([]), pool)
    gc.disable()
    try:
        member.report(turn_runner)
    finally:
        gc.enable()
    assert [each() for each in turn_runner.left] == [None]
