"""What workers take of processors is counted, and of hangs what was waited for them. Where they are given no processor
they are waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from fuzz.core.base.outcome import Status
from fuzz.core.transport.taken import Taken, workers_time
from fuzz.tests.common.planted import HANGS, Run, a_case

_BUSY = """
copy(c);
struct timespec now;
do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); while (now.tv_nsec + 1000000000LL * now.tv_sec < 100000000LL);
"""


@dataclass
class Machine:
    """A machine with one worker, whose time passes when it is told so."""

    time: float = 100.0
    used: float | None = 3.0
    runs: bool = True
    compiler: float | None = None
    """The processor seconds of a process that the worker waits for, which wants a processor."""
    asked: list[int] = field(default_factory=list)

    def taken(self) -> Taken:
        def runs(pid: int) -> bool:
            return self.runs or pid == 8

        return Taken(lambda: self.time, self._used, runs, lambda pid: [] if self.compiler is None else [8])

    def _used(self, pid: int) -> float | None:
        self.asked.append(pid)
        return self.compiler if pid == 8 else self.used

    def passes(self, seconds: float, used: float) -> None:
        self.time += seconds
        self.used = None if self.used is None else self.used + used


@pytest.fixture
def place() -> str:
    """Emulated workers are counted alike."""
    return "native"


def test_the_time_of_a_worker_is_counted(run: Run) -> None:
    """The kernel itself looks at its clock, and returns once its process has had 0.1 s."""
    before = workers_time()
    [ran] = run(_BUSY, a_case(), before="#include <time.h>\n")
    assert ran.status is Status.RAN
    assert workers_time() - before >= 0.1


def test_a_kernel_that_sleeps_for_ever_takes_what_is_waited_for_it(run: Run) -> None:
    before = workers_time()
    [hung] = run(f"copy(c); {HANGS}", a_case(), limit=0.25)
    assert hung.status is Status.HUNG
    assert workers_time() - before >= 0.25


def test_a_hang_that_spins_is_not_counted_twice() -> None:
    """It has taken of a processor what was waited for it."""
    taken, before = Machine(used=None).taken(), workers_time()
    taken.begin(7)
    taken._add(0.3)
    taken.hung(0.5)
    assert abs(workers_time() - before - 0.5) < 1e-9
    taken.begin(7)
    taken._add(0.7)
    taken.hung(0.5)
    assert abs(workers_time() - before - 1.2) < 1e-9


def test_the_clock_of_a_worker_stands_still_while_it_waits_for_a_processor() -> None:
    """Forty others want it too, and the worker has had a fortieth of ten seconds."""
    machine = Machine()
    taken = machine.taken()
    taken.begin(7)
    before = taken.clock
    for _ in range(10):
        machine.passes(1.0, used=1 / 40)
        taken.look(7)
    assert taken.clock - before == pytest.approx(10 / 40)
    assert {*machine.asked} == {7}


def test_a_worker_that_is_given_no_processor_at_all_ends_some_day() -> None:
    machine = Machine()
    taken = machine.taken()
    taken.begin(7)
    before = taken.clock
    machine.passes(640.0, used=0.0)
    taken.look(7)
    assert taken.clock - before == pytest.approx(10.0)


@pytest.mark.parametrize("machine", [Machine(runs=False), Machine(used=None)], ids=["sleeps", "is elsewhere"])
def test_the_clock_of_a_worker_goes_on_while_it_wants_no_processor_that_we_see(machine: Machine) -> None:
    taken = machine.taken()
    taken.begin(7)
    before = taken.clock
    for _ in range(10):
        machine.passes(1.0, used=0.0)
        taken.look(7)
    assert taken.clock - before == 10.0


def test_the_clock_of_a_worker_counts_what_a_compiler_that_it_waits_for_gets() -> None:
    """A right solution that torch compiles was said to hang on a busy machine."""
    machine = Machine(runs=False, compiler=0.0)
    taken = machine.taken()
    taken.begin(7)
    before = taken.clock
    for _ in range(10):
        machine.passes(1.0, used=0.0)
        machine.compiler = (machine.compiler or 0.0) + 1 / 40
        taken.look(7)
    assert taken.clock - before == pytest.approx(10 / 40)


def test_a_compiler_that_gets_a_processor_takes_time() -> None:
    machine = Machine(runs=False, compiler=0.0)
    taken = machine.taken()
    taken.begin(7)
    before = taken.clock
    for _ in range(10):
        machine.passes(1.0, used=0.0)
        machine.compiler = (machine.compiler or 0.0) + 1.0
        taken.look(7)
    assert taken.clock - before == pytest.approx(10.0)


def test_the_clock_of_a_worker_is_no_slower_for_what_it_waited_before_its_cases() -> None:
    machine = Machine()
    taken = machine.taken()
    machine.passes(50.0, used=0.0)
    taken.begin(7)
    before = taken.clock
    machine.passes(2.0, used=2.0)
    taken.look(7)
    assert taken.clock - before == 2.0


def test_the_clock_of_a_worker_counts_no_more_than_was_waited_for_an_answer_that_is_there() -> None:
    """The engine judged other cases for a minute, and found an answer of many parts half written, again and again."""
    machine = Machine(runs=False)
    taken = machine.taken()
    taken.begin(7)
    before = taken.clock
    for _ in range(10):
        machine.passes(60.0, used=0.5)
        taken.heard(7, 0.2)
    assert taken.clock - before == pytest.approx(10 * 0.2)
    machine.passes(0.1, used=0.0)
    taken.heard(7, 0.2)
    machine.passes(3.0, used=0.0)
    taken.look(7)
    assert taken.clock - before == pytest.approx(10 * 0.2 + 3.1)


def test_a_slow_call_on_a_busy_machine_does_not_hang(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes many times its limit, and the system says that it waits for a processor all the while."""
    starved: tuple[object, ...] = (time.monotonic, lambda pid: 0.0, lambda pid: True, lambda pid: [])
    monkeypatch.setattr(Taken.__init__, "__defaults__", starved)
    [ran] = run("copy(c); usleep(600000);", a_case(), before="#include <unistd.h>\n", limit=0.05)
    assert ran.status is Status.RAN
