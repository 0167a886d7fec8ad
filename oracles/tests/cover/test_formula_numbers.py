"""Ways to a value that differ for infinities alone are one where tensors hold numbers, and nobody pays for several."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracles.algorithm import traced
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, greatest, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.tests.common.judged import X
from oracles.tests.common.tiers import disagreements
from oracles.tiers import joined
from oracles.tiers.prepared import of_numbers
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

INF = float("inf")
WAYS = {"most": ("formula", "finite")}


def sums(x: list[float]) -> Problem:
    return Problem("logsumexp", {}, {"x": np.array([x], np.float32)}, {"y": "f32"})


def test_ways_that_differ_for_infinities_are_one_where_there_is_none() -> None:
    """Not where a number is one in a dtype that the kernel calculates in, nor of no elements, whose maximum is one."""
    for x, contract, count in (
        ([1.0, -3e38], Contract(algorithm=WAYS), 1),
        ([1.0, -3e38], Contract("f16", algorithm=WAYS), 2),
        ([1.0, 3e38], Contract(algorithm=WAYS, dtypes={"mass": "f16"}), 2),
        ([1.0, 3e38], Contract(algorithm=WAYS, points={"x": "maybe f16"}), 2),
        ([1.0, -INF], Contract(algorithm=WAYS), 2),
        ([1.0, np.nan], Contract(algorithm=WAYS), 2),
        ([1.0, 2.0], Contract(algorithm={**WAYS, "mass": ("formula", "online")}), 2),
    ):
        assert len(FormulaProblem(sums(x)).formulas(contract)) == count, (x, contract)
    nothing = np.zeros((2, 0), np.float32)
    of = Problem("cross_entropy", {}, {"x": nothing, "label": np.array([-100, -100])}, {"loss": "f32"})
    assert len(FormulaProblem(of).formulas(Contract(algorithm=WAYS))) == 2


def gap(x: Node) -> Outputs:
    """y = (3 x - max(x)) / 2."""
    most = greatest(x, "n")
    thrice = x * 3.0
    gap = thrice - most
    return {"y": gap * 0.5}


def _less(thrice: Node, x: Node, bound: float) -> Node:
    most = greatest(x, "n")
    return thrice - where(most < bound, most, most * 0.5 + most * 0.5)


def _renamed(x: Node, most: Node) -> Node:
    product = x * 3.0
    return product - most


def test_only_what_is_calculated_alike_and_called_alike_is_one() -> None:
    """What has another name may have another dtype; and what a comparison with a number chooses is not known."""
    ways: dict[str, Callable[..., Node]] = {
        "same": lambda thrice, x: _less(thrice, x, INF),
        "number": lambda thrice, x: _less(thrice, x, 1e38),
        "otherwise": lambda thrice, x: _less(thrice, x, -INF),
        "twice": lambda thrice, most: (thrice * 2.0 - most * 2.0) * 0.5,
        "renamed": _renamed,
    }
    op = Op(gap, (X,), (Operand("y", "... n"),), algorithms={"gap": ways})
    own = of_numbers(traced(op, ["x", "y"]))
    same = [way for way in ways if of_numbers(traced(op, ["x", "y"], {"gap": way})) == own]
    assert same == ["same"]


def test_a_problem_with_an_infinity_is_joined_with_none_that_has_fewer_ways() -> None:
    """Whichever comes first, and by a screen or not."""
    contract, numbers, infinite = Contract(algorithm=WAYS), sums([1.0, 1.0, 2.0]), sums([1.0, INF, 2.0])
    right = np.log(np.exp([1.0, 1.0, 2.0]).sum(keepdims=True)).astype(np.float32)
    for first, second in ((numbers, infinite), (infinite, numbers)):
        truths = [Truth(of) for of in (first, second)]
        asked = [
            (each.op, False, [(contract, each.receive({"y": y})) for y in ([right] if of is numbers else lost)])
            for of, each in zip((first, second), truths, strict=True)
            for lost in [[np.array([y], np.float32) for y in (np.nan, INF, 3.0)]]
        ]
        found = {of is numbers: answers for of, answers in zip((first, second), joined.certain(asked), strict=True)}
        assert [each is not None for each in found[True]] == [True]
        assert [each is not None for each in found[False]] == [True, True, False]
        checks = [
            truth.check(contract, {"y": y})[0].result == "pass" for truth, y in zip(truths, (right, right), strict=True)
        ]
        assert checks == [of is numbers for of in (first, second)]


def test_both_tiers_say_the_same_of_rows_with_infinities() -> None:
    x = np.array([[1, INF], [INF, INF], [-INF, -INF], [np.nan, INF], [1, -INF], [1, 2]], np.float32)
    label = np.array([0, 1, 0, 0, -100, 1])
    for op, inputs, outputs, params in (
        ("cross_entropy", {"x": x, "label": label}, ("loss", "lse", "mean"), {}),
        ("cross_entropy", {"x": x[:1], "label": label[:1]}, ("mean",), {"smoothing": 0.5, "z": 0.125}),
        ("cross_entropy_backward", {"x": x, "label": label, "dloss": np.ones(6, np.float32)}, ("dx",), {}),
        ("logsumexp", {"x": x}, ("y",), {}),
    ):
        of = Problem(op, params, inputs, dict.fromkeys(outputs, "f32"))
        compared, unsure, wrong = disagreements(of, Contract(algorithm=OPS[op].open_ways), np.random.default_rng(0))
        assert compared
        assert not unsure
        assert not wrong, wrong[0]
