"""What lambda was chosen for."""

from __future__ import annotations

import pytest

from oracles.calibration import calibrate
from oracles.formula.calibration import calibrate as calibrate_formula
from oracles.numerics import BY_HAND
from oracles.op import Op
from oracles.ops import OPS


def test_no_false_alarm_in_a_million_rows() -> None:
    assert sum(each.alarms for each in calibrate(1_000_000, 7)) == 0


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.name not in BY_HAND], ids=lambda op: op.name)
def test_no_false_alarm_under_any_pair_of_promises(op: Op) -> None:
    found = list(calibrate_formula(op, 20_000, 7))
    assert sum(each.runs for each in found) >= 20_000 - len(found)
    assert [each.contract for each in found if each.alarms] == []
