"""Errors that a value has both by itself and through sums that it is a part of."""

from __future__ import annotations

import numpy as np

from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.truth import Truth


def test_errors_that_are_joined_are_as_small_as_what_they_are_errors_of() -> None:
    """Gradients are linear in dy: with dy times 2^-900 so are their half-widths, though no square of them is left."""
    random = np.random.default_rng(2)
    x, weight = random.standard_normal((3, 18)) + 64.0, random.standard_normal(18)
    contract = Contract("f64", algorithm={"dx": "linear"})
    widths = []
    for scale in (1.0, 2.0**-900):
        dy = np.random.default_rng(3).standard_normal((3, 18)) * scale
        inputs = {"x": x, "dy": dy, "weight": weight, "mean": np.zeros(3), "rstd": np.ones(3)}
        of = Problem("layer_norm_backward", {"eps": 1.0}, inputs, {"dx": "f64"}, True)
        widths.append(Truth(of).enclosures(contract, True)["dx"].below / scale)
    assert np.allclose(widths[0], widths[1], rtol=1e-6, atol=0.0)
