"""The cast to an output's dtype flushes what is subnormal there, as processors do whose results are flushed."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.formula.contract import Contract
from oracles.formula.simulation import simulate
from oracles.problem import Problem
from oracles.truth import Truth


@pytest.mark.parametrize(("denormals", "result"), [("flush results", "pass"), ("preserve", "numeric")])
def test_what_is_flushed_by_the_cast_to_an_output(denormals: str, result: str) -> None:
    contract = Contract("f64", denormals=denormals)  # type: ignore[arg-type]
    x, weight = np.ones((1, 4), np.float32), np.ones(4, np.float32)
    inputs = {"x": x, "dy": np.full((1, 4), 1e-40, np.float32), "weight": weight}
    of = Problem("layer_norm_backward", {"eps": 1e-5}, inputs, dict.fromkeys(("dx", "dw", "db"), "f32"))
    got = simulate(of, Contract("f64"), np.random.default_rng(0))
    db = Truth(of).check(contract, {**got, "db": np.zeros_like(got["db"])})[2]
    assert (db.output, db.result) == ("db", result)
