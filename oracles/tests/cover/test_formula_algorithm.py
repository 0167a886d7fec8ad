"""Graphs of ops, for what a case has and by the algorithms that a kernel declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracles.algorithm import traced
from oracles.formula.trace import FormulaError, Node, avg, dot, ordered, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.tests.common.ops import LAYER_NORM, LAYER_NORM_BACKWARD, SOFTMAX

ALL = {**OPS, **{f"test {op.name}": op for op in (LAYER_NORM, LAYER_NORM_BACKWARD, SOFTMAX)}}


def test_what_is_absent_is_not_passed_and_not_calculated() -> None:
    graph = traced(LAYER_NORM, {"x", "y", "eps", "axis"})
    assert ({*graph.tensors}, {*graph.outputs}) == ({"x"}, {"y"})
    assert graph.dims == ("...", "n")
    graph = traced(LAYER_NORM, {"x", "weight", "y", "rstd", "eps"}, stacked={"weight"})
    assert graph.tensors == {"x": ("...", "n"), "weight": ("...", "n")}
    assert {*graph.outputs} == {"y", "rstd"}
    assert traced(LAYER_NORM, ["x", "y", "eps"]) is traced(LAYER_NORM, ("eps", "y", "x"))
    with pytest.raises(FormulaError, match="at least one of the outputs y, mean, rstd"):
        traced(LAYER_NORM, {"x", "eps"})


def test_an_algorithm_takes_the_place_of_a_local_wherever_it_is_used() -> None:
    present = {"x", "y", "rstd", "eps"}
    plain, graph = (traced(LAYER_NORM, present, {"var": name}) for name in ("formula", "moments"))
    assert plain.named("var") is not graph.named("var")
    assert graph.named("var").kind == "subtract"
    assert graph.named("mean") is plain.named("mean")
    for output in graph.outputs.values():
        made_of = {*ordered([output])}
        assert graph.named("var") in made_of
        assert plain.named("var") not in made_of
    backward = traced(LAYER_NORM_BACKWARD, {"x", "dy", "dx", "eps"}, {"dx": "affine"})
    assert backward.outputs["dx"] is backward.named("dx")
    assert backward.named("c").dims == {"..."}, "its own locals have names too"
    fused = {"x", "dy", "dsum", "dx", "dresidual", "eps"}
    graph = traced(OPS["fused_add_rms_norm_backward"], fused, {"dx": "rstd3"})
    assert graph.outputs["dx"] is graph.outputs["dresidual"]
    (dsummed,) = graph.outputs["dx"].args
    assert graph.named("dx") in dsummed.args


def test_where_a_local_is_given_an_algorithm_of_it_changes_nothing() -> None:
    op = replace(OPS["rms_norm_backward"], algorithms={"rstd": {"other": lambda x: avg(x, "n")}})
    present = {"x", "dy", "rstd", "dx", "eps"}
    assert traced(op, present, {"rstd": "other"}).outputs == traced(op, present).outputs


@pytest.mark.some(15)
@pytest.mark.parametrize("name", ALL)
def test_every_algorithm_has_the_exact_value_of_the_formula(name: str) -> None:
    op = ALL[name]
    least = {operand.name for operand in op.operands if not operand.optional and not operand.only_with}
    for present in (least, {operand.name for operand in op.operands}):
        for local, known in op.algorithms.items():
            for algorithm in known:
                assert traced(op, {*present, *op.params}, {local: algorithm}).outputs


def test_one_that_has_another_value_is_refused() -> None:
    def biased(x: Node, mean: Node) -> Node:
        return avg(x * x, "n") - mean * mean * (1.0 + 2.0**-52)

    op = replace(LAYER_NORM, algorithms={"var": {"biased": biased}})
    with pytest.raises(FormulaError, match="layer_norm: with its algorithm 'biased' of var, y has another exact value"):
        traced(op, {"x", "y", "eps"}, {"var": "biased"})


def test_where_extents_are_long_and_fixed_float64_tells_them_apart() -> None:
    def biased(x: Node, mean: Node) -> Node:
        return avg(x * x, "n") - mean * mean * (1.0 + 2.0**-30)

    ways = {**LAYER_NORM.algorithms["var"], "biased": biased}
    op = replace(LAYER_NORM, fixed={"n": 30_000}, algorithms={"var": ways})
    assert traced(op, {"x", "y", "eps"}, {"var": "moments"}).outputs
    with pytest.raises(FormulaError, match="with its algorithm 'biased' of var, y has another exact value"):
        traced(op, {"x", "y", "eps"}, {"var": "biased"})


def test_where_a_step_has_many_terms_float64_tells_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of small matrices has them: mpmath would take seconds."""
    monkeypatch.setattr("oracles.algorithm._differing", lambda *_: pytest.fail("in mpmath"))

    def scaled(a: Node, b: Node) -> dict[str, Node]:
        y = 2.0 * dot(a, b, "k")
        return {"y": y}

    ways = {"y": {"first": lambda a, b: dot(2.0 * a, b, "k"), "wrong": lambda a, b: dot(a, b, "k")}}
    op = Op(
        scaled, (Operand("a", "m k"), Operand("b", "k n")), (Operand("y", "m n"),), algorithms=ways,
        fixed={"m": 32, "k": 32, "n": 32},
    )  # fmt: skip
    assert traced(op, ["a", "b", "y"], {"y": "first"})
    with pytest.raises(FormulaError, match="'wrong' of y, y has another exact value"):
        traced(op, ["a", "b", "y"], {"y": "wrong"})


def test_where_bounds_leave_a_branch_open_values_tell_them_apart() -> None:
    """A mean of one element leaves a difference of 0, and whether a relu passes rounding errors is not known."""

    def passed(x: Node) -> dict[str, Node]:
        away = (x * 1.1 + x * 0.3) - x * 1.4
        y = where(away > 0.0, away, 0.0) + x
        return {"y": y}

    ways = {
        "y": {"same": lambda away, x: x + where(away > 0.0, away, 0.0), "wrong": lambda away, x: x * (1 + 2.0**-20)}
    }
    op = Op(passed, (Operand("x", "m n"),), (Operand("y", "m n"),), algorithms=ways, fixed={"m": 64, "n": 64})
    assert traced(op, ["x", "y"], {"y": "same"})
    with pytest.raises(FormulaError, match="'wrong' of y, y has another exact value"):
        traced(op, ["x", "y"], {"y": "wrong"})


def test_what_cannot_be_an_algorithm_is_refused_in_words() -> None:
    def circular(var: Node) -> Node:
        return var * 1.0

    def lacking(x: Node, sigma: Node) -> Node:
        return x * sigma

    def wide(x: Node) -> Node:
        return x * x

    known: dict[str, Callable[..., Node]] = {"circular": circular, "lacking": lacking, "wide": wide}
    op, present = replace(LAYER_NORM, algorithms={"var": known}), {"x", "y", "eps"}
    for name, words in (
        ("circular", "var: an algorithm cannot take the value that it is to calculate"),
        ("lacking", "var: its algorithm takes 'sigma', which the formula does not have here"),
        ("wide", "which is no value of its dimensions"),
        ("welford", "has no algorithm 'welford' of var; it has formula, circular, lacking, wide"),
    ):
        with pytest.raises(FormulaError, match=words):
            traced(op, present, {"var": name})
    with pytest.raises(FormulaError, match="no algorithms of 'variance'; it has some of var"):
        traced(op, present, {"variance": "moments"})
