"""Wrong kernels of formulas, simulated, are caught: a budget that gets blunt fails here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracles.doubledouble import F64
from oracles.enclosure import compare
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.forms import Form
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.summation import Lanes
from oracles.tests.common.judged import kernel, returned
from oracles.tiers.problem import FormulaProblem

LANES = Contract(sums={"n": Lanes(16, 4, "scalar")})
_ROWS, _N = 200, 1024


def _caught(mean: float, algorithm: str, seed: int) -> float:
    """The share of rows, of this mean times their spread, in which y alone leaves what the declared two-pass variance
    allows, of a kernel that has that algorithm."""
    rng = np.random.default_rng(seed)
    x = (mean + rng.standard_normal((_ROWS, _N))).astype(np.float32)
    of = Problem("layer_norm", {"eps": 2.0**-17}, {"x": x}, {"y": "f32"})
    got = returned(of, kernel(of, replace(LANES, algorithm={"var": algorithm}), rng))["y"].astype(np.float64)
    enclosure = FormulaProblem(of).enclose(LANES, of.structured)["y"]
    return float(compare(enclosure, got).failing.any(axis=1).mean())


@pytest.mark.some(1)
@pytest.mark.parametrize("mean", [128.0, 512.0, 1e4])
def test_moments_declared_two_pass_are_caught_where_the_mean_is_128_times_the_spread_or_more(mean: float) -> None:
    assert _caught(mean, "moments", 1) >= 0.9
    assert _caught(mean, "formula", 1) == 0.0


def test_they_are_not_where_the_mean_is_small_nor_by_a_budget_that_is_blunt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _caught(2.0, "moments", 1) < 0.5
    half_width = Budget.half_width

    def blunt(self: Budget, form: Form) -> F64:
        return half_width(self, form) * 4.0

    monkeypatch.setattr(Budget, "half_width", blunt)
    assert _caught(128.0, "moments", 1) < 0.9
