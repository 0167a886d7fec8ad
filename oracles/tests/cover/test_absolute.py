"""Functions whose contract allows an error that does not shrink with the result, as polynomials in their place have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from oracles.elementary.functions import records
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.summation import NumericsError
from oracles.tests.common.elementary import FUNCTIONS
from oracles.tests.common.functions import OPS, problems
from oracles.tests.common.judged import known, results
from oracles.truth import Truth

BOUNDED = [name for name, of in records().items() if of.is_bounded]
ULP = 2.0**-23
"""An ulp of 1 in float32."""


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with known(*OPS.values()):
        yield


@pytest.mark.some(1)
@pytest.mark.parametrize("name", BOUNDED)
def test_no_kernel_that_errs_by_as_much_is_accused(name: str) -> None:
    for place, plain in enumerate(
        (Contract("input"), Contract("f32", denormals="flush"), Contract("input", zeros="any"))
    ):
        contract = replace(plain, absolute={name: 3.0})
        for dtype in ("f32", "bf16"):
            for of in problems(name, dtype, 1, place):
                got = simulate(of, contract, np.random.default_rng(place))
                assert results(of, contract, got) == ["pass"] * 3, (dtype, contract)


@pytest.mark.parametrize("name", BOUNDED)
def test_what_errs_by_more_is_accused_and_by_less_only_where_it_is_allowed(name: str) -> None:
    x = np.array([[-3.0, -0.7, 0.01, 0.3, 1e-4, 2.0]], np.float32)
    x = x[(x > FUNCTIONS[name].domain) & (x < FUNCTIONS[name].top)][None]
    of = Problem(OPS[name].name, {}, {"x": x, "g": np.ones_like(x)}, {"y": "f32"}, structured=True)
    y = FUNCTIONS[name].float64.value(x.astype(np.float64))
    share = 2 * records()[name].usual * np.abs(y) * ULP
    for ulp, contract, failing in (
        (3.5, Contract(absolute={name: 4.0}), 0),
        (5.0, Contract(absolute={name: 4.0}), x.size),
        (3.5, Contract(), x.size),
    ):
        off = ulp * ULP + (share if failing else 0.0)
        (check,) = Truth(of).check(contract, {"y": (y + off).astype(np.float32)})
        assert check.failing == failing, (ulp, contract)


def test_only_functions_that_are_bounded_may_err_so() -> None:
    assert BOUNDED == ["asin", "atan", "cos", "erf", "sigmoid", "sin", "tanh"]
    for name in ("exp", "floor", "divide", "foo"):
        with pytest.raises(NumericsError, match=f"absolute: '{name}' is no bounded function; there are asin, .*, tanh"):
            Contract(absolute={name: 1.0})
    for ulp in (0.0, -1.0, float("nan"), 2.0**20):
        with pytest.raises(NumericsError, match=r"absolute: erf within .* ulp of 1: it must be more than 0"):
            Contract(absolute={"erf": ulp})
