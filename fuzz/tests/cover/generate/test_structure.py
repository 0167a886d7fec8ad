"""Whose rounding errors are random: random codes times random numbers of any dtype, but no squares of codes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.draw import GIVEN, Draw, Given, Part
from fuzz.core.generate.realise import realise
from fuzz.core.judge.values import problem_of
from fuzz.quality.subjects import simulated
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, dot, total
from oracles.op import Op
from oracles.operand import CODES, Operand
from oracles.summation import Lanes, Sequential
from oracles.tests.common.judged import known
from oracles.tiers.problem import FormulaProblem

_K = 1024


def _product(x: str, code: str = "any_code", scale: str = "ones", recipe: str = "normal", *, seed: int = 1) -> Case:
    parts = (
        Part("x", x, recipe=recipe),
        Part("q", "int8", recipe=code),
        Part("scale", "f32", recipe=scale),
        Part("c", "f32"),
    )
    return realise(Draw("dequantize_matmul", _K, (8, 2), {"axis": 2}, seed, parts, extents={"n": 8}))


@pytest.mark.parametrize("x", ["f32", "bf16"])
def test_random_codes_times_random_numbers_round_at_random(x: str) -> None:
    assert not _product(x).structured
    assert _product(x, "high_codes").structured
    assert _product(x, recipe="constant").structured


def test_codes_that_are_given_beside_rows_that_are_drawn_are_not_known_to_be_random() -> None:
    """So are those of a failure, whose other inputs are drawn anew to explain it."""
    given = Part("q", "int8", recipe=GIVEN, given=Given("int8", 4, bytes(range(4))))
    parts = (Part("x", "f32", recipe="normal"), given, Part("scale", "f32", recipe="ones"), Part("c", "f32"))
    case = realise(Draw("dequantize_matmul", 4, (8, 2), {"axis": 2}, 1, parts, extents={"n": 8}))
    assert case.structured
    assert case.inputs["q"].bits[:4] == bytes(range(4))


@pytest.mark.parametrize("order", [Sequential(), Lanes(16, 4, "predicated")])
@pytest.mark.parametrize("recipe", ["normal", "uniform", "zero_rows"])
def test_no_right_sum_of_few_bits_is_accused(recipe: str, order: Sequential | Lanes) -> None:
    """SearchScope of 16 bits, which the sum rounds to a coarse unit: what is allowed is far more than they need."""
    contract = Contract(sums={"g k": order}, fused=False)
    for seed in range(4):
        problem = FormulaProblem(problem_of(_product("bf16", recipe=recipe, seed=seed)))
        [enclosure] = problem.enclose(contract, False).values()
        found = compare(enclosure, simulated(problem, contract, seed)["c"])
        assert not found.failing.any()
        assert found.ratio.max() < 0.25
        worst = problem.enclose(contract, True)["c"]
        assert order != Sequential() or enclosure.below.sum() < 0.5 * worst.below.sum()


@pytest.mark.parametrize("recipe", ["row_scales", "near_threshold", "far_below_threshold"])
def test_a_sum_over_rows_of_different_sizes_drops_the_small_ones(recipe: str) -> None:
    """The squares of a row of small numbers are less than half a unit of a sum that has those of a large one."""

    def structured(op: str, recipe: str, axis: int, **extents: int) -> bool:
        parts = (Part("x", "f16", recipe=recipe), Part("y", "f32"))
        draw = Draw(op, 510, (1, 3, 4)[:axis], {"eps": 1e-6, "axis": axis}, 1, parts, extents=extents)
        return realise(draw).structured

    assert structured("group_norm", recipe, 3)
    assert not structured("group_norm", "normal", 3)
    assert not structured("rms_norm", recipe, 1)


def test_grids_that_are_added_must_be_as_fine_as_each_other() -> None:
    parts = [
        Part("x", "f32", recipe="normal"),
        Part("residual", "bf16", recipe="normal"),
        Part("weight", "f32", recipe="ones"),
    ]
    draw = Draw(
        "fused_add_rms_norm", 8, (4,), {"eps": 1e-6, "axis": 1}, 1, (*parts, Part("y", "f32"), Part("sum", "f32"))
    )
    assert realise(draw).structured
    parts = [Part("x", "f32", recipe="normal"), Part("dy", "bf16", recipe="normal"), Part("dx", "f32")]
    assert not realise(Draw("rms_norm_backward", 8, (4,), {"eps": 1e-6, "axis": 1}, 1, tuple(parts))).structured


def squared(x: Node, code: Node, scale: Node) -> Outputs:
    """y = sum(code^2 scale) + x."""
    weight = code * scale
    return {"y": dot(code, weight, "n") + x}


def gathered(x: Node, code: Node, scale: Node) -> Outputs:
    """y = sum(code + x scale)."""
    return {"y": total(code + x * scale, "n")}


@pytest.mark.parametrize("formula", [squared, gathered])
def test_squares_of_codes_and_sums_with_them_are_not_random(formula: Callable[..., Outputs]) -> None:
    inputs = (
        Operand("x", "m n"),
        Operand("code", "m n", dtype="int8", values=CODES),
        Operand("scale", "m n", dtype="f32"),
    )
    op = Op(formula, inputs, (Operand("y", "m n" if formula is squared else "m"),))
    with known(op):
        parts = [
            Part(each.name, each.dtype or "f32", recipe="any_code" if each.is_code else "normal") for each in inputs
        ]
        assert realise(Draw(op.name, 8, (4,), {"axis": 1}, 1, (*parts, Part("y", "f32")))).structured
