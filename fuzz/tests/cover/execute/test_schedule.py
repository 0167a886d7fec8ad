"""Whose turn it is: batches are done in the order of their sending, however many workers share the processors."""

from __future__ import annotations

import threading
import time

from fuzz.execute.schedule import Schedule


def _waiting(schedule: Schedule, count: int) -> None:
    while len(schedule._waiting) < count:
        time.sleep(0.001)


def test_those_who_wait_go_by_their_place_and_those_of_one_place_as_they_came() -> None:
    schedule, done = Schedule(1), list[str]()

    def work(name: str, place: float) -> None:
        with schedule.slot((place,)):
            done.append(name)

    threads = list[threading.Thread]()
    with schedule.slot((9,)):
        for name, place in (("late", 3), ("first", 1), ("second", 2), ("third", 2)):
            threads.append(threading.Thread(target=work, args=(name, place)))
            threads[-1].start()
            _waiting(schedule, len(threads))
    for thread in threads:
        thread.join()
    assert done == ["first", "second", "third", "late"]


def test_who_has_just_had_a_turn_does_not_take_the_next_from_those_who_wait() -> None:
    """With a semaphore one worker is done with every batch before another begins with the first."""
    schedule, done = Schedule(1), list[tuple[str, int]]()
    alive = 3

    def work(name: str) -> None:
        nonlocal alive
        for batch in range(20):
            with schedule.slot((batch,)):
                while len(schedule._waiting) < alive - 1:  # a real worker's turn lasts longer than to ask for the next
                    time.sleep(0.0001)
                done.append((name, batch))
        alive -= 1

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    with schedule.slot((-1,)):
        for count, thread in enumerate(threads, start=1):
            thread.start()
            _waiting(schedule, count)
    for thread in threads:
        thread.join()
    ahead = [max(batch for _, batch in done[: i + 1]) - batch for i, (_, batch) in enumerate(done)]
    assert len(done) == 60
    assert max(ahead) <= 1


def test_no_more_work_at_a_time_than_there_are_slots_and_a_failure_gives_its_slot_back() -> None:
    schedule, lock = Schedule(2), threading.Lock()
    busy = most = 0

    def work() -> None:
        nonlocal busy, most
        try:
            with schedule.slot((0,)):
                with lock:
                    busy += 1
                    most = max(most, busy)
                time.sleep(0.002)
                with lock:
                    busy -= 1
                raise ValueError
        except ValueError:
            pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2
    assert schedule._free == 2
