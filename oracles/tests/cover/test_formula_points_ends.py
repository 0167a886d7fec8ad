"""Rounding points at the ends of a dtype: what overflows there, is subnormal or rounds to zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles.formula.affine.budget import Budget
from oracles.formula.affine.errors import either
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Node, Outputs, point, total, trace
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import Sequential
from oracles.tests.common.judged import kernel, known, returned
from oracles.tests.common.points import ADDED, SCALED, problem
from oracles.tiers.conformance import Conformance
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with known(SCALED, ADDED):
        yield


def test_what_may_overflow_at_a_narrowing_or_not_is_not_judged() -> None:
    """65520 is infinite in f16, and the next smaller number is not."""
    graph = trace(lambda x, y: {"p": x * y, "q": (x * y) * 0.5}, {"x": ("n",), "y": ("n",)})
    x = np.array([65520.0 / 3, 65000.0 / 3, 66000.0 / 3], np.float32)
    inputs = Inputs(graph, {"x": x, "y": np.full(3, 3.0, np.float32)}, {})
    may = Budget(inputs, Contract("f32", dtypes={"q": "f16"})).output("q", "f16").may
    assert may is not None
    assert may.tolist() == [True, False, False]


@pytest.mark.parametrize("nonfinite", ["ieee", "unspecified"])
def test_what_may_overflow_is_known_beside_an_infinity_too(nonfinite: Any) -> None:
    """Rounded to f16 by itself, a product of 150,000 is infinite. A difference in another dtype takes it so."""
    contract = Contract("f16", dtypes={"dx": "bf16"}, nonfinite=nonfinite)
    for last in (1.0, np.inf):
        y, dy = np.full((1, 300), 1.6, np.float32), np.full((1, 300), 100.0, np.float32)
        y[0, -1] = last
        op = FormulaProblem(Problem("log_softmax_backward", {}, {"y": y, "dy": dy}, {"dx": "f32"}, structured=True))
        inputs = Inputs(op.formulas(contract)[0].trace, op.tensors, op.parameters)
        may = either([Budget(inputs, contract, structured=True).output("dx", "f32")])
        assert may is not None
        assert may[0, :-1].all()


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("nonfinite", ["overflow", "unspecified"])
def test_what_overflows_at_a_point_in_the_dtype_of_the_output_is_not_judged(nonfinite: Any, saturate: bool) -> None:
    """A kernel may have anything from there on, which no cast to that dtype makes good."""

    def tripled(x: Node) -> Outputs:
        y = x * 3.0
        return {"y": point(y)}

    inputs = Inputs(trace(tripled, {"x": ("n",)}), {"x": np.array([1e18, 65500.0 / 3, 2.0], np.float32)}, {})
    contract = Contract("f32", points={"y": "f16"}, nonfinite=nonfinite, saturate=saturate)
    unjudged = Conformance(inputs, contract, {"y": "f16"}).enclosure("y").unjudged
    assert unjudged is not None
    assert unjudged.tolist() == [True, False, False]
    cast = Conformance(inputs, replace(contract, points={}), {"y": "f16"}).enclosure("y").unjudged
    if nonfinite == "overflow" or saturate:
        assert cast is None
    else:
        assert cast is not None
        assert cast.tolist() == [True, False, False]


def test_a_mean_of_squares_that_kernels_may_lose_all_of_is_no_zero_at_a_point() -> None:
    """In a bfloat16 accumulator a row of 2,048 elements may come to anything from nothing to a thousand times its sum;
    the middle of all that was taken for the value, and zero, which no kernel has, for a pole."""
    of = problem("bf16", (1, 2048), np.random.default_rng(0), eps=0.0, without=("weight",))
    contract = Contract(compute="input", points={"mean_square": "bf16"}, sums={"n": Sequential()})
    x = of.inputs["x"].astype(np.float64)
    y = x / np.sqrt((x * x).mean())
    for share in (0.25, 1.0, 4.0):
        (check,) = Truth(of).check(contract, {"y": (share * y).astype(STORAGE["bf16"])})
        assert check.result == "pass", share
    (check,) = Truth(of).check(contract, {"y": np.zeros_like(of.inputs["x"])})
    assert check.result == "numeric"


def test_a_point_flushes_what_is_subnormal_in_its_dtype() -> None:
    rng = np.random.default_rng(18)
    of = problem("f32", (20, 16), rng, without=("weight",))
    of.inputs["x"][...] *= 2.0 ** rng.integers(-26, 1, (20, 16)).astype(np.float32)
    contract = Contract("f32", points={"h": "f16"}, denormals="flush results")
    got = returned(of, kernel(of, contract, rng))
    assert [check.result for check in Truth(of).check(contract, got)] == ["pass"]
    kept = replace(contract, denormals="preserve")
    assert [check.result for check in Truth(of).check(kept, got)] == ["numeric"]


def test_a_point_in_a_format_without_infinity_leaves_nan() -> None:
    rng = np.random.default_rng(11)
    of = problem("f32", (4, 4096), rng, out="f32")
    of.inputs["x"][0, 1:], of.inputs["x"][1, 2:] = 0, 0
    contract = Contract("f32", points={"h": "e5m2"})
    wide = replace(of, inputs={**of.inputs, "x": of.inputs["x"] * np.float32(3)})
    for each, promised in ((of, contract), (wide, Contract("f32", points={"h": "e4m3fn"}))):
        got = returned(each, kernel(each, promised, rng))
        assert {check.result for check in Truth(each).check(promised, got)} == {"pass"}
    graph = trace(lambda x: {"y": point(x) * 2.0}, {"x": ("n",)})
    big = Inputs(graph, {"x": np.array([400.0, 500.0, -500.0], np.float32)}, {})
    centre = Budget(big, Contract("f32", points={"x": "e4m3fn"})).output("y", "f32").centre
    assert np.isnan(centre).tolist() == [False, True, True]


def test_what_rounds_to_zero_keeps_its_sign() -> None:
    """2^-100 is zero in f16, and its reciprocal root infinite; of what may be of either sign nothing is known."""
    graph = trace(lambda x, y: {"r": 1.0 / x, "s": 1.0 / total(y, "n")}, {"x": ("...", "n"), "y": ("...", "n")})
    x = np.array([[2.0**-100, -(2.0**-100)]], np.float32)
    y = np.array([[2.0**-100, 2.0**-125 - 2.0**-100]], np.float32)
    budget = Budget(Inputs(graph, {"x": x, "y": y}, {}), Contract("f32", dtypes={"r": "f16", "s": "f16"}))
    assert budget.output("r", "f16").centre.tolist() == [[np.inf, -np.inf]]
    unknown = budget.output("s", "f16")
    assert unknown.may is not None
    assert unknown.may.all()


@pytest.mark.some(3)
@pytest.mark.parametrize("nonfinite", ["ieee", "unspecified"])
@pytest.mark.parametrize("points", [{}, {"h": "f32"}, {"h": "bf16"}])
def test_the_tiers_agree_about_rows_that_underflow_in_float64(
    points: Mapping[str, str], nonfinite: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their root is a pole, so that the outputs are infinite, and NaN where an element is zero."""
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 5)
    x = np.array([[-0.0, 2e-323, 4e-323, -2e-323, 0.0]])
    of = Problem("scaled", {"eps": 0.0}, {"x": x}, {"y": "f64", "rstd": "f64"})
    for compute, right in (("f64", np.inf), ("f32", np.nan)):  # in f32 all of x is zero
        contract = Contract(compute, points=points, nonfinite=nonfinite)
        for value in (np.nan, 7.0, 0.0, np.inf):
            y = np.where(x == 0, np.nan, np.copysign(value, x))
            checks = Truth(of).check(contract, {"y": y, "rstd": np.array([np.inf])})
            expected = nonfinite == "unspecified" or np.array_equal(value, right, equal_nan=True)
            assert [check.result == "pass" for check in checks] == [expected, True]
