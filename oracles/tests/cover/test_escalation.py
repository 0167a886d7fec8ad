"""How seldom the fast tier needs the precise one. How fast it is, `python3 -m fuzz.quality oracle` measures."""

from __future__ import annotations

import numpy as np

from oracles import Lanes, Numerics
from oracles.calibration import RECIPES, values
from oracles.problem import Problem
from oracles.simulation import rms_norm
from oracles.truth import Truth


def test_hardly_any_element_is_escalated() -> None:
    rng = np.random.default_rng(0)
    numerics = Numerics(summation=Lanes(16, 4, "scalar"))
    elements = escalated = 0
    for dtype in ("f32", "f16", "bf16"):
        for recipe in RECIPES:
            x = values(recipe, 8, 512, dtype, rng)
            y, root = rms_norm(x, numerics, 2.0**-17, dtype)
            problem = Problem("rms_norm", {"eps": 2.0**-17}, {"x": x}, {"y": dtype, "rstd": "f32"}, structured=True)
            checks = Truth(problem).check(numerics, {"y": y, "rstd": root})
            assert [check.result for check in checks] == ["pass", "pass"]
            escalated += sum(check.escalated for check in checks)
            elements += y.size + root.size
    assert escalated / elements < 1e-3


def test_what_is_added_in_float64_is_decided_by_the_fast_tier() -> None:
    """A row whose gradient cancels: float64 could not tell what a kernel in it may return from its own error."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 724)).astype(np.float32)
    inputs = {
        "x": x,
        "dy": (x * np.float32(1.5) + rng.standard_normal(x.shape).astype(np.float32) * 1e-6).astype("<f4"),
    }
    numerics = Numerics(accumulate="f64", multiply="f64")
    problem = Problem("rms_norm_backward", {"eps": 0.0}, inputs, {"dx": "f32"}, structured=True)
    values, dy = x.astype(np.float64), inputs["dy"].astype(np.float64)
    r = 1.0 / np.sqrt((values * values).mean(1, keepdims=True))
    dx = r * (dy - values * r * (values * r * dy).mean(1, keepdims=True))
    (check,) = Truth(problem).check(numerics, {"dx": dx.astype(np.float32)})
    assert (check.result, check.escalated) == ("pass", 0)
