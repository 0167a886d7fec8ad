"""What lambda was chosen for."""

from __future__ import annotations

from oracles.calibration import calibrate


def test_no_false_alarm_in_a_million_rows() -> None:
    assert sum(each.alarms for each in calibrate(1_000_000, 7)) == 0
