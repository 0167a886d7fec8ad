"""The exact value of an element, rounded once, is right: of every op, of formulas made at random, and of references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from fuzz.quality.calibrate import verb
from fuzz.quality.calibrate.verb import accused, accused_of, accused_of_formulas
from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import GivenData
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, elementary, floor, point
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.tests.common.whole import WHOLE, some
from oracles.truth import Truth


def test_the_nearest_result_is_right_of_every_op() -> None:
    assert {
        name: found
        for name, op in some([*OPS.items()], 18)
        if (found := [*map(str, accused(op, ("f32", "bf16"), 2, 1))])
    } == {}


def test_the_nearest_result_is_right_of_formulas_made_at_random() -> None:
    """Among these are constants and parameters that f32 does not hold, and sums of two inputs."""
    assert [*map(str, accused_of_formulas(range(150 if WHOLE else 50), 1))] == []


def sqdist(a: Any, b: Any) -> Any:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def silu_of_sum(x: Any, y: Any) -> Any:
    return torch.nn.functional.silu(x + y)


def third(x: Any, y: Any) -> Any:
    return x * (1 / 3) * y


def capped(x: Any, y: Any) -> Any:
    return torch.where(x + y > 0.1, 1.0, 0.0)


@pytest.mark.parametrize(
    ("reference", "shapes"),
    [
        (sqdist, "a=i d, b=j d"),
        (silu_of_sum, "x=... n, y=... n"),
        (third, "x=... n, y=... n"),
        (capped, "x=... n, y=... n"),
    ],
)
def test_the_nearest_result_is_right_of_a_reference(reference: Callable[..., Any], shapes: str) -> None:
    found = read(reference, GivenData(shapes))
    [output], dice = found.derived.op.outputs, np.random.default_rng(1)
    for _ in range(10):
        given = {
            each.name: dice.normal(size=(2, 3)).astype(np.float32) * (1 + place)
            for place, each in enumerate(found.derived.op.inputs)
        }
        problem = Problem(found.op, {}, given, {output.name: "f32"}, structured=False, known=found.derived.op)
        assert [*map(str, accused_of(problem, found.contract))] == []


def test_what_fixes_extents_that_take_minutes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "nearest", lambda problem: pytest.fail(f"{problem.sizes}"))
    found = read(third, GivenData("x=... n, y=... n"))
    given = {name: np.ones((24, 1280), np.float32) for name in "xy"}
    [output] = found.derived.op.outputs
    problem = Problem(found.op, {}, given, {output.name: "f32"}, structured=False, known=found.derived.op)
    assert [*accused_of(problem, found.contract)] == []


def test_what_lies_beyond_both_readings_is_wrong_and_told_by_the_exact_value() -> None:
    """The difference rounded to f32 allows less than the exact one, which is allowed besides; and that is what is
    told, 65691.4436268 and no square of what was rounded."""
    found = read(sqdist, GivenData("a=i d, b=j d"))
    given = {"a": np.array([[1.0]], np.float32), "b": np.array([[-255.30342]], np.float32)}
    truth = Truth(Problem(found.op, {}, given, {"y": "f32"}, structured=False, known=found.derived.op))
    near = np.array([[65691.4436268156]], np.float32)
    above = np.nextafter(near, np.float32(np.inf))
    assert [check.result for check in truth.check(found.contract, {"y": near})] == ["pass"]
    assert [check.result for check in truth.check(found.contract, {"y": above})] == ["numeric"]
    told = truth.explain(found.contract, "y", (0, 0), float(above[0, 0]))
    assert told.exact.startswith("65691.4436268156")
    assert told.expected.value == near[0, 0]


def twice(x: Node) -> Outputs:
    h = 2.0 * x
    return {"y": 3.0 * point(h)}


@pytest.mark.parametrize(
    ("points", "result"), [({}, "pass"), ({"h": "maybe bf16"}, "pass"), ({"h": "bf16"}, "numeric")]
)
def test_what_a_contract_rounds_is_rounded(points: Mapping[str, str], result: str) -> None:
    """A point that a contract names is a rounding on purpose: there the exact value is that of what was rounded."""
    op = Op(twice, (Operand("x", "... n"),), (Operand("y", "... n"),))
    given = np.array([[1.001]], np.float32)
    truth = Truth(Problem(op.name, {}, {"x": given}, {"y": "f32"}, structured=False, known=op))
    assert [each.result for each in truth.check(Contract(points=points), {"y": 6 * given})] == [result]


def floor_of_tanh(x: Node) -> Outputs:
    return {"y": floor(elementary("tanh")(x))}


@pytest.mark.parametrize(("y", "result"), [(0.0, "pass"), (1.0, "pass"), (-1.0, "numeric"), (2.0, "numeric")])
def test_both_sides_of_a_step_are_right_that_float64_does_not_tell_apart(y: float, result: str) -> None:
    """The hyperbolic tangent of 80 is below 1 by 1e-69, so that its floor is 0; every kernel has 1."""
    op = Op(floor_of_tanh, (Operand("x", "... n"),), (Operand("y", "... n"),))
    given = {"x": np.array([[80.0]], np.float32)}
    truth = Truth(Problem(op.name, {}, given, {"y": "f32"}, structured=True, known=op))
    assert [each.result for each in truth.check(Contract(), {"y": np.array([[y]], np.float32)})] == [result]
