"""Searches of kernels that are compiled for each length: cases of one program, turns in pieces, ops side by side."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.campaign.search.guide import NO_LESSONS
from fuzz.campaign.search.process_executor import ProcessExecutor
from fuzz.campaign.search.runner import Runner, search_ops
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.search.turn_runner import MATES, PIECES, SearchScope, TurnJob, TurnReport, TurnRunner, mates_at
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search
from fuzz.core.generate.turn import BATCH, PLACES, Turn
from fuzz.core.transport.python.arrays import TorchArrays
from fuzz.core.transport.python.slab import slabs
from fuzz.findings.book import book_in
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.planted import a_case

KERNELS = PACK.kernels
_, MOST = MATES[-1]


@pytest.mark.some(1)
@pytest.mark.parametrize("op", sorted({kernel.op for kernel in KERNELS}))
def test_mates_of_a_case_have_its_length_dtypes_and_alignment(op: str) -> None:
    """By which programs are told apart; and other values, and now and then other rows. They have those of its draw:
    where tensors were made to share memory, which no program of its own is given, it lies elsewhere."""
    search = Search(op, 3, KERNELS)
    made, _ = search.cases(Turn(0, 0), b"")
    alone = [each for each in made if each.draw is not None]
    every = search.with_mates(made, Turn(0, 0), MOST)
    found = [each for each in every if each.draw is not None]
    assert len(found) > len(alone) * MOST // 2
    of = {each.case.origin.number: each for each in alone}
    head, values = found[0], set[bytes]()
    for each in found:
        head = of.get(each.case.origin.number, head)
        assert each.draw is not None
        assert head.draw is not None
        assert (each.draw.n, each.draw.extents) == (head.draw.n, head.draw.extents)
        drawn = realise(head.draw)
        assert drawn == head.case or not head.case.apart
        for name, tensor in each.case.tensors.items() if each is not head else ():
            other = drawn.tensors[name]
            assert tensor.dtype == other.dtype
            assert (tensor.layout.offset, tensor.layout.guard) == (other.layout.offset, other.layout.guard)
        values.add(b"".join(each.bits for each in each.case.inputs.values()))
    assert len(values) > len(found) // 2
    assert len({each.case.origin.number for each in found}) == len(found)


@pytest.mark.whole
def test_a_mate_comes_back_by_its_number() -> None:
    """However many of them its turn had."""
    search, turn = Search("rms_norm", 3, KERNELS), Turn(2, 0)
    made, _ = search.cases(turn, b"")
    for count in {mates_at(number) for number in range(9)}:
        mates = [each for each in search.with_mates(made, turn, count) if each not in made][::7]
        again = [search.case(turn.shard, each.case.origin.number) for each in mates]
        assert [each and each.case.digest for each in again] == [each.case.digest for each in mates]
    assert search.case(2, ((1 << 16) + 32 * BATCH) * PLACES) is None, "there is no case of which it were one"


def test_a_tensor_in_the_middle_of_memory_lies_there() -> None:
    """On a GPU all tensors of a frame are parts of one."""
    import torch

    for slab in slabs(a_case(), 512, 0x7FFD, guarded=False).values():
        room = torch.zeros(len(slab.image) + 4096, dtype=torch.uint8)
        slab.memory = room[1536 : 1536 + len(slab.image)]
        slab.memory.copy_(torch.from_numpy(slab.image))
        view = TorchArrays().view(slab)
        assert view.data_ptr() == room.data_ptr() + 1536 + slab.start
        view.fill_(2.5)
        assert set(memoryview(slab.array(slab.memory.numpy(), "f4").tobytes()).cast("f")) == {2.5}
        assert not room[:1536].any()


def _targets(*ops: str) -> list[Target]:
    """Kernels in torch, searched as if they were compiled."""
    kernels = [each for each in KERNELS if each.op in ops and each.name.endswith("eager") and each.kind == "torch"]
    cpu = [each for each in expand(kernels, this_host()) if each.name.site == "cpu"]
    return [replace(each, shares=True, specialised=True) for each in cpu]


def test_a_turn_in_pieces_has_the_cases_of_a_whole_one_and_teaches_as_much() -> None:
    """A twin is in the piece of its case; only the last piece is the end of the turn."""
    targets, found = _targets("softmax"), list[list[TurnReport]]()
    with WorkerPool(targets, jobs=1) as pool:
        for pieces in (1, PIECES):
            runner = TurnRunner(pool, targets, SearchScope(KERNELS, ("rerun",), ([targets[0].id],), twin_one_in=2))
            runner.searched("softmax", 1)
            runner.begin(TurnJob(1, "softmax", 1, Turn(0, 0), pieces=pieces))
            found.append([report for _ in range(pieces) for report in runner.end()])
    [whole], parts = found
    assert [each.rest for each in parts] == list(reversed(range(PIECES)))
    assert sum(each.tally.cases for each in parts) == whole.tally.cases > BATCH * mates_at(1)
    assert sum(each.tally.laws["rerun"] for each in parts) == whole.tally.laws["rerun"] > 0
    assert parts[-1].lessons == whole.lessons != NO_LESSONS
    assert {each.state for each in parts} == {whole.state}


def test_pieces_that_a_process_reported_before_it_ended_are_not_run_again() -> None:
    targets = _targets("softmax")
    with WorkerPool(targets, jobs=1) as pool:
        runner = TurnRunner(pool, targets, SearchScope(KERNELS, (), ([targets[0].id],)))
        runner.searched("softmax", 1)
        runner.begin(TurnJob(0, "softmax", 1, Turn(0, 0), pieces=PIECES, skip=PIECES - 2))
        assert runner.on_their_way == 2
        assert [report.rest for _ in range(2) for report in runner.end()] == [1, 0]


def test_all_ops_that_are_searched_without_a_limit_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.campaign.search.schedule._STINT_S", 0.1)
    targets = _targets("softmax", "row_sum")
    with WorkerPool(targets, jobs=1) as pool:
        runner = Runner(pool, targets, SessionLimits(), book_in(tmp_path, 1))
        runner.over = lambda: all(runner.tally.targets[each.id].judged >= 8 for each in targets)
        search_ops(runner, 1)
        judged = {each.kernel.op: runner.tally.targets[each.id].judged for each in targets}
        assert all(count >= 8 for count in judged.values()), judged
        assert not runner.tally.findings
        assert set(runner.tally.visits) == set(judged)


@pytest.mark.whole
def test_no_piece_is_lost_or_counted_twice_where_a_process_is_killed() -> None:
    targets, scope = _targets("softmax"), SearchScope(KERNELS)
    scope = replace(scope, groups=([each.id for each in targets],))
    tasks = [TurnJob(place, "softmax", 1, Turn(place, 0), pieces=PIECES) for place in range(4)]
    seen, killed = Counter[tuple[int, int]](), False
    with ProcessExecutor(targets, scope, (2,), lambda mine: WorkerPool(mine, jobs=1, at_once=False)) as executor:
        while not executor.ready(0.25):
            pass
        for task in tasks:
            executor.give(task, [])
        while len(seen) < len(tasks) * PIECES:
            report = executor.take(1.0)
            if report is not None:
                seen[report.task.place, report.rest] += 1
            if len(seen) == 3 and not killed:
                killed = True
                os.kill(executor.pids[0], signal.SIGKILL)
        assert executor.deaths == 1
        assert executor.take(0.5) is None
    assert set(seen.values()) == {1}
