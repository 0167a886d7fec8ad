"""Formulas as graphs, and their exact values in three arithmetics."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from oracles.doubledouble import DoubleDouble
from oracles.formula.exact.arithmetic import Double, Float64, Precise
from oracles.formula.exact.centre import Exact, Inputs, evaluate
from oracles.formula.trace import FormulaError, Node, Outputs, avg, exp, greatest, take, total, trace, where
from oracles.tests.common.formulas import FORMULAS, problems, traced

DOUBLE = [name for name in FORMULAS if name not in ("moments", "gelu_erf")]
"""Those whose terms do not cancel."""


def test_a_trace_has_each_value_once_after_its_arguments_and_the_names_of_locals() -> None:
    graph = traced("layer_norm")
    assert graph.dims == ("...", "n")
    places = {node: place for place, node in enumerate(graph.nodes)}
    assert all(places[arg] < places[node] for node in graph.nodes for arg in node.args)
    assert {*graph.names.values()} == {"x", "weight", "bias", "eps", "mean", "centred", "var", "rstd", "y"}
    assert graph.named("rstd").dims == {"..."}
    assert len(graph.uses[graph.named("centred")]) == 3, "its square takes it twice"
    with pytest.raises(FormulaError, match="no local 'variance'"):
        graph.named("variance")


def test_what_cannot_be_read_is_refused_in_words() -> None:
    with pytest.raises(FormulaError, match=r"sum over 'k': the value has only the dimensions \['\.\.\.', 'n'\]"):
        trace(lambda x: {"y": total(x, "k")}, {"x": ("...", "n")})

    def branches(x: Node) -> Outputs:
        return {"y": x if x < 0.0 else -x}

    with pytest.raises(FormulaError, match="use where"):
        trace(branches, {"x": ("n",)})
    with pytest.raises(FormulaError, match="output 'y' is 3"):
        trace(lambda x: {"y": 3}, {"x": ("n",)})  # type: ignore[dict-item]
    graph = traced("rms_norm")
    wrong = Inputs(graph, {"x": np.zeros((2, 3)), "weight": np.zeros(4)}, {"eps": 0.0})
    with pytest.raises(FormulaError, match="weight: 4 along 'n', where another tensor has 3"):
        assert wrong.extents
    wrong = Inputs(graph, {"x": np.zeros(3), "weight": np.zeros(3)}, {"eps": 0.0})
    with pytest.raises(FormulaError, match=r"x: it has 1 axes for the dimensions \.\.\., n"):
        assert wrong.extents


@pytest.mark.some(7)
@pytest.mark.parametrize("name", FORMULAS)
def test_float64_and_single_elements_agree_with_mpmath(name: str) -> None:
    random = np.random.default_rng(5)
    with mpmath.workprec(400):
        for kind, inputs in problems(name, np.float32, 6, 2, random):
            quick, exact = evaluate(inputs, Float64()), evaluate(inputs, Precise())
            for output, node in inputs.trace.outputs.items():
                dims = [dim for dim in inputs.trace.dims if dim in node.dims]
                index = tuple(int(random.integers(inputs.extents[dim])) for dim in dims)
                one = Exact(inputs).element(node, dict(zip(dims, index, strict=True)))
                shape = [inputs.extents[dim] for dim in dims]
                whole = exact[node].reshape(shape)[index]
                assert one == whole or (mpmath.isnan(one) and mpmath.isnan(whole)), (kind, output)
                if mpmath.isfinite(one) and math.isfinite(float(one)):
                    sizes = max(abs(float(v)) for v in exact[node].flat if mpmath.isfinite(v))
                    assert abs(float(quick[node].reshape(shape)[index]) - float(one)) <= 1e-6 * max(sizes, 1e-300), kind


@pytest.mark.parametrize("name", DOUBLE)
def test_double_double_agrees_with_mpmath_to_ninety_bits(name: str) -> None:
    for kind, inputs in problems(name, np.float64, 6, 2, np.random.default_rng(6)):
        if kind not in ("normal", "mean 1e2", "dominant", "half zeros", "ties"):
            continue
        with mpmath.workprec(400):
            double, exact = evaluate(inputs, Double()), evaluate(inputs, Precise())
            for node in inputs.trace.outputs.values():
                for high, low, value in zip(
                    double[node].high.flat, double[node].low.flat, exact[node].flat, strict=True
                ):
                    assert abs(mpmath.mpf(high) + mpmath.mpf(low) - value) <= 2.0**-90 * max(abs(value), 1e-2), kind


def test_special_values_do_as_ieee_754_says_in_mpmath_too() -> None:
    def special(x: Node) -> Outputs:
        return {"quotient": 1.0 / x, "e": exp(x), "share": x / total(x, "n"), "masked": where(x <= 0.0, 0.0, x)}

    graph = trace(special, {"x": ("n",)})
    for values in ([0.0, -1.0], [math.inf, 1.0], [math.nan, 2.0], [-math.inf, math.inf]):
        inputs = Inputs(graph, {"x": np.array(values)}, {})
        quick, exact = evaluate(inputs, Float64()), evaluate(inputs, Precise())
        for node in graph.outputs.values():
            found = [float(value) for value in exact[node].flat]
            np.testing.assert_allclose(quick[node].reshape(-1), found, rtol=1e-15)


def test_an_index_takes_elements_of_a_table() -> None:
    graph = trace(lambda t, i: {"y": take(t, i, "v")}, {"t": ("v", "n"), "i": ("...", "n")})
    table, index = np.arange(6.0).reshape(3, 2), np.array([[0, 1], [2, 2]])
    inputs = Inputs(graph, {"t": table, "i": index}, {})
    for arithmetic in (Float64(), Precise(), Double()):
        found = evaluate(inputs, arithmetic)[graph.outputs["y"]]
        found = found.high if isinstance(found, DoubleDouble) else found.astype(np.float64)
        assert found.reshape(2, 2).T.tolist() == [[0.0, 3.0], [4.0, 5.0]]
    assert Exact(inputs).element(graph.outputs["y"], {"...": 1, "n": 0}) == 4
    for wrong in (-1, 3):
        with pytest.raises(FormulaError, match="outside of 0 to 2"):
            evaluate(Inputs(graph, {"t": table, "i": index * 0 + wrong}, {}), Float64())
    with pytest.raises(FormulaError, match="the table has only the dimensions"):
        trace(lambda t, i: {"y": take(t, i, "k")}, {"t": ("v", "n"), "i": ("...",)})


def test_reductions_of_nothing_are_those_of_ieee_arithmetic() -> None:
    graph = trace(lambda x: {"sum": total(x, "n"), "max": greatest(x, "n"), "mean": avg(x, "n")}, {"x": ("n",)})
    inputs = Inputs(graph, {"x": np.zeros(0)}, {})
    for arithmetic in (Float64(), Precise()):
        found = {name: float(evaluate(inputs, arithmetic)[node].item()) for name, node in graph.outputs.items()}
        assert (found["sum"], found["max"]) == (0.0, -math.inf)
        assert math.isnan(found["mean"])
