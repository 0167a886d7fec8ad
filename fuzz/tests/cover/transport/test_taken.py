"""What workers take of processors is counted, and of hangs what was waited for them."""

from __future__ import annotations

import pytest

from fuzz.base.outcome import Status
from fuzz.tests.common.planted import HANGS, Run, a_case
from fuzz.transport.taken import Taken, workers_time

_BUSY = """
copy(c);
struct timespec now;
do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); while (now.tv_nsec + 1000000000LL * now.tv_sec < 100000000LL);
"""


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
    taken, before = Taken(), workers_time()
    taken.begin()
    taken._add(0.3)
    taken.hung(0.5)
    assert abs(workers_time() - before - 0.5) < 1e-9
    taken.begin()
    taken._add(0.7)
    taken.hung(0.5)
    assert abs(workers_time() - before - 1.2) < 1e-9
