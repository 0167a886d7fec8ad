"""The time for explaining in a test's own process is that which the process had."""

from __future__ import annotations

import time

import pytest

from fuzz.uses.check.own_time import OwnTime


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
