"""The time for explaining in a test's own process is that which the process had."""

from __future__ import annotations

import time

import pytest

import fuzz
from fuzz.uses.check.own_time import OPTION, OwnTime, explaining
from fuzz.uses.check.plan import EXPLAIN_S


@pytest.mark.parametrize(
    ("passed", "used", "counted"),
    [
        (10.0, 10.0, 10.0),
        (20.0, 8.0, 8.0),  # others had the processor
        (30.0, 0.5, 10.0),  # it waited, as for a GPU
        (10.0, 70.0, 10.0),  # threads used several processors
    ],
)
def test_seconds_of_others_do_not_count(
    passed: float, used: float, counted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = OwnTime(100.0, 50.0)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + passed)
    monkeypatch.setattr(time, "process_time", lambda: 50.0 + used)
    assert clock() == counted


def test_a_program_says_in_its_environment_how_long_to_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test has the option of its runner."""
    monkeypatch.setenv("KERNELFUZZ_EXPLAIN_S", "2.5")
    assert explaining()[1] == OPTION
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert explaining() == (2.5, "a larger KERNELFUZZ_EXPLAIN_S")
    monkeypatch.setenv("KERNELFUZZ_EXPLAIN_S", "1m")
    with pytest.raises(fuzz.CheckError, match=r"^KERNELFUZZ_EXPLAIN_S=1m: it is a number of seconds, such as 60$"):
        explaining()
    monkeypatch.delenv("KERNELFUZZ_EXPLAIN_S")
    assert explaining() == (EXPLAIN_S, "KERNELFUZZ_EXPLAIN_S=60")
