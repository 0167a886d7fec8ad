"""What a process of a search keeps."""

from __future__ import annotations

import gc
import weakref
from multiprocessing import Pipe

from fuzz.campaign.search.search_process import SearchProcess
from fuzz.campaign.search.turn_runner import SearchScope, TurnReport, TurnRunner
from fuzz.campaign.search.wire import Waiting, answer
from fuzz.core.execute.pool import WorkerPool
from oracles.escalation import PreciseProgress


class _Knot:
    """It refers to itself, so that no count of references frees it."""

    def __init__(self) -> None:
        self.itself = self


class _Tying(TurnRunner):
    """Leaves a knot with every batch, as an oracle does."""

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__(pool, [], SearchScope([]))
        self.left: list[weakref.ref[_Knot]] = []

    def end(self) -> list[TurnReport]:
        self.left.append(weakref.ref(_Knot()))
        return []


def test_what_a_batch_leaves_is_freed_although_python_does_not_look() -> None:
    pool = WorkerPool([])
    turn_runner, member = _Tying(pool), SearchProcess(Pipe()[0], [], SearchScope([]), pool)
    gc.disable()
    try:
        member.report(turn_runner)
    finally:
        gc.enable()
    assert [each() for each in turn_runner.left] == [None]


def test_an_output_that_takes_long_to_judge_is_told_of_once_a_second() -> None:
    here, there = Pipe()
    member = SearchProcess(here, [], SearchScope([]), WorkerPool([]))
    for step in (
        PreciseProgress("softmax", "y", 0, 5000, 0.5),
        *(PreciseProgress("softmax", "y", 120, 5000, 12.0),) * 2,
    ):
        member.judging(step)
    said = answer(there.recv_bytes())
    assert isinstance(said, Waiting)
    [wait] = said.waits
    assert (wait.target, wait.seconds) == ("the oracle", 12.0)
    assert wait.words == "y of softmax in many digits, 120 of 5,000 elements in 12 s of 60 s"
    assert not there.poll()
