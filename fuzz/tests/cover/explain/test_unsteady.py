"""A result that changes by chance is told as that, and not as what a state or earlier calls do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import Capabilities, Contract, PythonKernel
from fuzz.campaign.search.stopping import late
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.attribute.history import Need, need_line, recognise
from fuzz.explain.explanation import Unsteady
from fuzz.explain.trial.trial import CALLS, unsteady
from fuzz.tests.common.planted import a_case

_KERNEL = """
import os
CALLS = []
def rms_norm(x, eps):
    y = x / ((x * x).mean(-1, keepdims=True) + eps) ** 0.5
    CALLS.append(1)
    if {wrong}:
        y[1, 2] = 0
    return y
"""


def _changing(folder: Path, wrong: str, *, together: bool = False) -> Unsteady | None:
    source = folder / "mine.py"
    source.write_text(_KERNEL.format(wrong=wrong))
    kernel = PythonKernel("mine", "rms_norm", source, "numpy", Contract(), Capabilities())
    [target] = expand([kernel], this_host())
    with WorkerPool([target], bounded=False) as pool:
        return unsteady(pool, target, a_case(), beside=together)


def test_how_often_and_where_a_result_changes_is_told(tmp_path: Path) -> None:
    """One call of 32 that is another one is too few with a chance of 1 in 10^4."""
    found = _changing(tmp_path, "os.urandom(1)[0] < 64")
    assert found is not None
    assert (found.calls, found.results, found.first, found.changing, found.of) == (2 * CALLS, 2, (1, 2), 1, 12)
    assert 0 < found.others < CALLS
    assert str(found) == (
        f"2 different results in 64 equal calls, {found.others} not the usual one: 1 of 12 elements of y, first y[1, 2]"
    )


@pytest.mark.whole
def test_calls_of_several_processes_at_once_are_compared_one_by_one(tmp_path: Path) -> None:
    """As on a GPU, where alone each call may give the same."""
    assert _changing(tmp_path, "len(CALLS) > 40", together=True) is None
    found = _changing(tmp_path, "len(CALLS) > 40 and os.urandom(1)[0] < 64", together=True)
    assert found is not None
    assert found.calls > 4 * CALLS
    assert (found.first, found.changing) == ((1, 2), 1)


@pytest.mark.whole
def test_processes_beside_are_waited_for_as_long_as_the_pool_is(tmp_path: Path) -> None:
    """Where Ctrl-C was pressed, or the time is over, nothing that hangs in them holds it up."""
    source = tmp_path / "mine.py"
    first = tmp_path / "first"
    source.write_text(
        f"import os, time\nFIRST = os.path.exists({str(first)!r})\n" + _KERNEL.format(wrong="FIRST or time.sleep(900)")
    )
    first.touch()
    kernel = PythonKernel("mine", "rms_norm", source, "numpy", Contract(), Capabilities())
    [target] = expand([kernel], this_host())
    with WorkerPool([target], bounded=False) as pool:
        assert unsteady(pool, target, a_case()) is None
        first.unlink()
        pool.watch = late(lambda: True)
        assert unsteady(pool, target, a_case(), beside=True) is None


def test_what_is_wrong_from_a_certain_call_on_is_no_chance(tmp_path: Path) -> None:
    assert _changing(tmp_path, "len(CALLS) > 5") is None


def test_calls_are_not_blamed_for_chance() -> None:
    """Whatever calls come before, the case fails now and then after them."""
    found, asked = Unsteady(64, 9, 2, "y", (0,), 1, 1), list[int]()
    case = a_case()

    def fails(history: object) -> bool:
        asked.append(1)
        return len(asked) > 1

    recognised = recognise(fails, case, [case], lambda: found)
    assert recognised.need is Need.UNKNOWN
    assert "comes and goes: 2 different results in 64 equal calls, 9 not the usual one: y[0];" in need_line(
        recognised, case
    )
