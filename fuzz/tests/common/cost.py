"""A pytest plugin: what tests cost in CPU seconds, whatever else the machine does, with a limit for those in `cover`.
Those marked `whole` run at night alone: they are dear, and the gate has their promise from a cheaper one. A test marked
`some(count)` has all rows of its table at night, and so many of them in the gate.

A test's own are those of its process and of all that this has started, from its set-up to the end of its call. What a
fixture of a wider scope costs is counted apart: whichever test comes first would pay for all of them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

import fuzz.tests.common.threads  # noqa: F401 (before NumPy)
from oracles.tests.common.whole import WHOLE, evenly

LIMIT_S = 24.0
"""CPU seconds of a processor on which `pace` is 1: three times what a test may want. One that took 2.8 on one machine
took 12.4 on another, whose other processor was busy."""
_PACE_LOOP, _PACE_S = 1_000_000, 0.031
"""Additions in a loop, and the CPU seconds that they took on a quiet core of a Xeon, under Python 3.12."""
_SHOWN = 5
"""Tests that are named at the end, the dearest first."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# The tests start hundreds of processes: without byte code each compiles the whole engine again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_started = pytest.StashKey[float]()
_shared = [0.0]
"""CPU seconds of all fixtures so far that tests share."""
_spent: dict[str, float] = {}
"""CPU seconds by test, and by fixture that tests share."""


def cpu_seconds() -> float:
    """CPU seconds of this process, of its descendants, and of those of them that ended and were waited for."""
    return sum(os.times()[:4]) + sum(_of_process(pid) for pid in _descendants("self"))


def _descendants(pid: str) -> Iterator[str]:
    """The processes below one, as Linux tells them; none on a kernel that does not."""
    with contextlib.suppress(OSError):  # it is gone
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in _read(f"{thread}/children").split():
                yield child
                yield from _descendants(child)


def _of_process(pid: str) -> float:
    """CPU seconds of a process and of its children that it waited for; one that is gone is counted where that was."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def _read(path: str) -> str:
    """A file of the kernel's, which has no size; '' where it is not there any more."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 4096).decode()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def pace() -> float:
    """Return by how much this processor is slower now than the one that the limit is for: a test that fails where the
    machine is slow or busy says nothing."""
    began = time.process_time()
    total = 0
    for number in range(_PACE_LOOP):
        total += number
    return (time.process_time() - began) / _PACE_S


def _refuse_dear(item: pytest.Item, what: str, spent: float) -> None:
    if spent > LIMIT_S and "cover" in item.path.parts and not WHOLE and spent > LIMIT_S * pace():
        pytest.fail(
            f"{what} took {spent:.1f} CPU seconds, and in a folder `cover` {LIMIT_S:g} are allowed: make it cheaper "
            f"(fewer cases, a fixture of the module, no process of its own), or move it to `nightly`",
            pytrace=False,
        )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: a dear test, which the gate leaves to the night")
    config.addinivalue_line("markers", "some(count): the gate has so many rows of the test's table, and the night all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if WHOLE:
        return
    tables = dict[str, list[pytest.Function]]()
    left = {item for item in items if item.get_closest_marker("whole")}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("some"):
            tables.setdefault(f"{item.parent and item.parent.nodeid} {item.originalname}", []).append(item)
    if not any("::" in word for word in config.args):  # who names a row wants it
        left.update(*({*rows} - {*representatives(rows)} for rows in tables.values()))
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """What was imported stays: collections that look through it all take half a second each."""
    gc.collect()
    gc.freeze()


def representatives(rows: Sequence[pytest.Function]) -> Sequence[pytest.Function]:
    """Return the rows of a test that the gate has: as many as its mark says, which have as many values of each of its
    parameters as so many can, and lie evenly between the first and the last."""
    mark = rows[0].get_closest_marker("some")
    assert mark is not None
    (count,) = mark.args
    rows = sorted(rows, key=lambda row: [*row.callspec.indices.values()])  # as they stand there, whatever mixed them
    first, seen, found = evenly(rows, count), Counter[tuple[str, int]](), list[pytest.Function]()
    left = [*first, *(row for row in rows if row not in first)]
    while left and len(found) < count:
        best = min(left, key=lambda row: sum(seen[each] for each in row.callspec.indices.items()))
        seen.update(best.callspec.indices.items())
        found.append(best)
        left.remove(best)
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_started] = cpu_seconds() - _shared[0]
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    before = cpu_seconds() - _shared[0]
    found = yield
    spent = cpu_seconds() - _shared[0] - before
    _shared[0] += spent
    item = getattr(request, "_pyfuncitem", None)
    if isinstance(item, pytest.Item):
        item.user_properties.append((f"cpu_s of {fixturedef.argname}", spent))
        _refuse_dear(item, f"the fixture {fixturedef.argname}", spent)
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    yield
    spent = cpu_seconds() - _shared[0] - item.stash[_started]
    item.user_properties.append(("cpu_s", spent))
    _refuse_dear(item, "this test", spent)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        for name, spent in report.user_properties:
            if name.startswith("cpu_s"):
                _spent[report.nodeid + name.removeprefix("cpu_s")] = float(str(spent))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if sum(_spent.values()) > LIMIT_S:
        dearest = sorted(_spent.items(), key=lambda each: -each[1])[:_SHOWN]
        terminalreporter.section(f"{sum(_spent.values()):.0f} CPU seconds in tests, most of them in")
        for name, spent in dearest:
            terminalreporter.write_line(f"{spent:6.1f} {name}")
