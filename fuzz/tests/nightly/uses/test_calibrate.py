"""Correct kernels of every op, under any pair of promises: none is accused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz.uses.calibrate.calibration import calibrated, carried_out, planned
from oracles.ops import OPS


@pytest.mark.parametrize("op", OPS)
def test_no_false_alarm_under_any_pair_of_promises(op: str, tmp_path: Path) -> None:
    plan = planned([OPS[op]], 20_000, 7, tmp_path, None)
    found = calibrated(OPS[op], list(carried_out(plan, os.cpu_count() or 1)))
    assert found.runs >= 20_000
    assert [text for each in found.contracts for text in each.alarms] == []
