"""Whose turn it is: batches are done in the order of their sending, however many lanes share the slots."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

import pytest

from fuzz.core.execute.loop import Loop, Queue
from fuzz.core.transport.steps import Pause, Steps

FAR = 1e9


class Pipe:
    """Read by many, each at a descriptor of its own."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._copies: list[int] = []

    def copy(self) -> int:
        self._copies.append(os.dup(self._read))
        return self._copies[-1]

    def fill(self) -> None:
        os.write(self._write, b"!")

    def close(self) -> None:
        for descriptor in (self._read, self._write, *self._copies):
            os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def _waiting(done: list[str], name: str, descriptor: int, until: float = FAR) -> Steps[None]:
    """Says that it began, waits for the pipe, and says how that ended."""
    done.append(f"{name} began")
    ready = yield Pause(descriptor, select.POLLIN, until)
    done.append(f"{name} {'ready' if ready else 'late'}")


def test_batches_go_by_their_number_and_of_one_batch_the_slowest_first(pipe: Pipe) -> None:
    loop, done = Loop(1), list[str]()
    quick, slow, third = Queue(busy_s=1.0), Queue(busy_s=9.0), Queue(busy_s=5.0)
    loop.submit(third, 1, _waiting(done, "first", pipe.copy()))
    for queue, number, name in ((quick, 3, "quick 3"), (quick, 4, "quick 4"), (slow, 3, "slow 3"), (third, 2, "2")):
        loop.submit(queue, number, _waiting(done, name, pipe.copy()))
    pipe.fill()
    while loop.advance(0.0):
        pass
    assert [each for each in done if each.endswith("began")] == [
        f"{name} began" for name in ("first", "2", "slow 3", "quick 3", "quick 4")
    ]


def test_no_more_lanes_at_a_time_than_there_are_slots_and_one_job_of_each(pipe: Pipe) -> None:
    loop, done = Loop(2), list[str]()
    queues = [Queue() for _ in range(4)]
    for number, queue in enumerate(queues):
        for _ in range(2):
            loop.submit(queue, number, _waiting(done, str(number), pipe.copy()))
    loop.advance(0.0)
    assert done == ["0 began", "1 began"]
    pipe.fill()
    most = 0
    while loop.advance(0.0):
        most = max(most, sum(queue.pause is not None for queue in queues))
    assert most == 2
    assert len(done) == 16


def test_a_lane_that_waits_holds_up_no_other(pipe: Pipe, other: Pipe) -> None:
    loop, done = Loop(2), list[str]()
    loop.submit(Queue(), 1, _waiting(done, "slow", pipe.copy()))
    for number in range(2, 5):
        loop.submit(Queue(), number, _waiting(done, str(number), other.copy()))
    other.fill()
    for _ in range(3):
        loop.advance(0.0)
    assert done[-1] == "4 ready"
    assert "slow ready" not in done


def test_what_is_ready_is_so_even_where_its_time_has_come(pipe: Pipe, other: Pipe) -> None:
    """Whoever takes the steps may have been at something else meanwhile."""
    loop, done = Loop(2), list[str]()
    loop.submit(Queue(), 1, _waiting(done, "answered", pipe.copy(), until=time.monotonic() - 1))
    loop.submit(Queue(), 1, _waiting(done, "silent", other.copy(), until=time.monotonic() - 1))
    pipe.fill()
    loop.advance(0.0)
    assert sorted(done[2:]) == ["answered ready", "silent late"]
    assert not loop.advance(0.0)
