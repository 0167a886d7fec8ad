"""The time for explaining is that which what explains had of processors."""

from __future__ import annotations

import time

import pytest

from fuzz.core.execute import spent
from fuzz.core.execute.spent import Spent


@pytest.mark.parametrize(
    ("passed", "own", "workers", "counted"),
    [
        (10.0, 10.0, 0.0, 10.0),
        (10.0, 4.0, 6.0, 10.0),
        (90.0, 4.0, 6.0, 10.0),  # others had the processors
        (30.0, 0.5, 0.5, 3.0),  # it waited, as for another machine
        (10.0, 40.0, 30.0, 10.0),  # threads used several processors
    ],
)
def test_seconds_of_others_do_not_count(
    passed: float, own: float, workers: float, counted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Spent(100.0, 50.0)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + passed)
    monkeypatch.setattr(time, "process_time", lambda: 20.0 + own)
    monkeypatch.setattr(spent, "workers_time", lambda: 30.0 + workers)
    assert clock() == counted
