"""Searches of kernels that are compiled for each length: parts of turns, and many cases of one program."""

from __future__ import annotations

import pytest

from fuzz.generate.search import Search
from fuzz.generate.turn import BATCH, Turn
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.planted import a_case
from fuzz.transport.python.arrays import TorchArrays
from fuzz.transport.python.slab import slabs
from fuzz.uses.search.schedule import Schedule
from fuzz.uses.search.turn_runner import MATES, PARTS, Report, Task

KERNELS = PACK.kernels


def _tasks(schedule: Schedule, count: int) -> list[Task]:
    return [task for _ in range(count) if (task := schedule.next_task()) is not None]


def test_the_parts_of_a_turn_are_drawn_from_one_state() -> None:
    """Also where the first of them has ended before the last one begins."""
    search = Search("rms_norm", 1, KERNELS)
    schedule = Schedule(search, "rms_norm", 1, search.capabilities, parts=PARTS, timed=True)
    first = _tasks(schedule, 2)
    list(schedule.joined(Report(first[0], state=b"\1")))
    tasks = first + _tasks(schedule, 2 * PARTS - 2)
    assert [each.part for each in tasks] == [(part, PARTS) for part in range(PARTS)] * 2
    assert [each.place for each in tasks] == list(range(2 * PARTS))
    assert {(each.turn, each.state) for each in tasks[:PARTS]} == {(tasks[0].turn, b"")}


@pytest.mark.some(2)
@pytest.mark.parametrize("op", sorted({kernel.op for kernel in KERNELS}))
def test_mates_of_a_case_have_its_length_dtypes_and_alignment(op: str) -> None:
    """By which programs are told apart; and other values, and now and then other rows."""
    search = Search(op, 3, KERNELS)
    made, _ = search.cases(Turn(0, 0), b"")
    alone = [each for each in made if each.draw is not None]
    found = search.with_mates(alone, Turn(0, 0), MATES)
    assert len(found) > len(alone) * MATES // 2
    of = {each.case.origin.number: each for each in alone}
    head, values = found[0], set[bytes]()
    for each in found:
        head = of.get(each.case.origin.number, head)
        assert each.draw is not None
        assert head.draw is not None
        assert (each.draw.n, each.draw.extents) == (head.draw.n, head.draw.extents)
        for name, tensor in each.case.tensors.items():
            other = head.case.tensors[name]
            assert tensor.dtype == other.dtype
            assert (tensor.layout.offset, tensor.layout.guard) == (other.layout.offset, other.layout.guard)
        values.add(b"".join(each.bits for each in each.case.inputs.values()))
    assert len(values) > len(found) // 2
    assert all(search.case(0, each.case.origin.number) is None for each in found if each.case.origin.number not in of)


def test_turns_whole_and_in_parts_have_the_same_cases() -> None:
    assert BATCH % PARTS == 0
    search = Search("rms_norm", 1, KERNELS)
    whole, parts = (Schedule(search, "rms_norm", 1, search.capabilities, parts=n, timed=True) for n in (1, PARTS))
    assert [each.turn for each in _tasks(whole, 3)] == [each.turn for each in _tasks(parts, 3 * PARTS)[::PARTS]]


def test_a_tensor_in_the_middle_of_memory_lies_there() -> None:
    """On a GPU all tensors of a frame are parts of one."""
    torch = pytest.importorskip("torch")
    for slab in slabs(a_case(), 512, 0x7FFD, guarded=False).values():
        room = torch.zeros(len(slab.image) + 4096, dtype=torch.uint8)
        slab.memory = room[1536 : 1536 + len(slab.image)]
        slab.memory.copy_(torch.from_numpy(slab.image))
        view = TorchArrays().view(slab)
        assert view.data_ptr() == room.data_ptr() + 1536 + slab.start
        view.fill_(2.5)
        assert set(memoryview(slab.array(slab.memory.numpy(), "f4").tobytes()).cast("f")) == {2.5}
        assert not room[:1536].any()
