"""What lambda was chosen for."""

from __future__ import annotations

import pytest

from oracles.formula.calibration import calibrate
from oracles.op import Op
from oracles.ops import OPS


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_no_false_alarm_under_any_pair_of_promises(op: Op) -> None:
    found = list(calibrate(op, 20_000, 7))
    assert sum(each.runs for each in found) >= 20_000 - len(found)
    assert [each.contract for each in found if each.alarms] == []
