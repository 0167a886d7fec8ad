"""Calibration of formulas: contracts cover all pairs of values, and a budget that is too narrow is noticed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from oracles.doubledouble import F64
from oracles.formula.budget import Budget
from oracles.formula.calibration import calibrate, contracts, fields
from oracles.formula.forms import Form
from oracles.tests.common.judged import GELU, known
from oracles.tests.common.ops import LAYER_NORM


def test_any_two_values_of_two_fields_meet_in_a_contract() -> None:
    every, values = contracts(LAYER_NORM), fields(LAYER_NORM)
    for a, b in combinations(values, 2):
        met = {(str(getattr(each, a)), str(getattr(each, b))) for each in every}
        assert met == {(str(one), str(two)) for one in values[a] for two in values[b]}, (a, b)
    assert len(every) < 40


def test_a_budget_that_is_too_narrow_makes_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    with known(GELU):
        assert sum(each.alarms for each in calibrate(GELU, 60, 2)) == 0
        half_width = Budget.half_width

        def narrower(self: Budget, form: Form) -> F64:
            return np.maximum(half_width(self, form) - np.abs(form.centre) * 2.0**-22, 0.0)

        monkeypatch.setattr(Budget, "half_width", narrower)
        assert sum(each.alarms for each in calibrate(GELU, 60, 2)) > 2
