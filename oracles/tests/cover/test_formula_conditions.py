"""Conditions of a formula: comparisons, and what `&`, `|` and `~` make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from oracles.check import check
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Double, Float64, Precise
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import (
    FormulaError,
    Node,
    Outputs,
    dot,
    exp,
    extent,
    greatest,
    position,
    take,
    total,
    trace,
    where,
)
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.tests.common.judged import known
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth

VALUES = np.array([-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan])
CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "==": lambda x: x == 0.0,
    "!=": lambda x: x != 1.0,
    "number first": lambda x: 1.0 == x,  # noqa: SIM300 (which is what is tested)
    "a number of NumPy first": lambda x: np.float32(1.0) == x,
    "itself": lambda x: x == x,
    "&": lambda x: (x >= 0.0) & (x < 1.0),
    "|": lambda x: (x < -1.0) | (x == 1.0),
    "~": lambda x: ~(x < 1.0),
    "all": lambda x: ~((x == 0.0) | (x > 1.0)) & (x != -1.0),
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("arithmetic", [Float64, Double, Precise])
def test_conditions_are_what_ieee_754_says_in_every_arithmetic(name: str, arithmetic: Callable[[], Any]) -> None:
    holds = CONDITIONS[name]
    graph = trace(lambda x: {"y": where(holds(x), 1.0, 0.0)}, {"x": ("n",)})
    with mpmath.workprec(100), np.errstate(invalid="ignore"):
        found = evaluate(Inputs(graph, {"x": VALUES}, {}), arithmetic())[graph.outputs["y"]]
    values = np.asarray(getattr(found, "high", found), dtype=np.float64)
    assert values.tolist() == holds(VALUES).astype(float).tolist()


def test_an_input_that_is_there_is_not_none() -> None:
    def scaled(x: Node, weight: Node | None = None) -> Outputs:
        return {"y": x if weight == None else x * weight}  # noqa: E711 (as people write)

    assert trace(scaled, {"x": ("n",), "weight": ("n",)}).outputs["y"].kind == "multiply"
    assert trace(scaled, {"x": ("n",)}).outputs["y"].kind == "tensor"


def test_an_if_of_an_equality_is_refused_as_one_of_an_inequality_is() -> None:
    def scaled(x: Node, k: Node) -> Outputs:
        return {"y": x if k == 0 else x * 2}

    with pytest.raises(FormulaError, match="use where"):
        trace(scaled, {"x": ("n",)}, ["k"])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda x: np.exp(x), "numpy.exp knows no value of a formula: use f.exp"),
        (lambda x: np.sum(x), "numpy.sum knows no value of a formula: use f.total"),
        (lambda x: np.add.reduce(x), "numpy.sum knows no value of a formula: use f.total"),
        (lambda x: np.matmul(x, x), "numpy.matmul knows no value of a formula: use f.dot"),
        (lambda x: np.cumsum(x), "numpy.cumsum .* such as f.exp and f.total"),
        (lambda x: math.exp(x), "not those of math"),
    ],
)  # fmt: skip
def test_functions_of_others_say_which_one_to_use(wrong: Callable[[Any], Any], says: str) -> None:
    def of(x: Node) -> Outputs:
        return {"y": wrong(x)}

    with pytest.raises(OpError, match=f"^of: .*{says}$") as error:
        check(Op(of, inputs=(Operand("x", "n"),), outputs=(Operand("y", "n"),)))
    assert "\n" not in str(error.value)


def test_torch_says_which_function_to_use() -> None:
    import torch

    for wrong, says in ((torch.exp, "f.exp"), (torch.mean, "f.avg"), (torch.nn.functional.softplus, "f.softplus")):
        with pytest.raises(FormulaError, match=f"^torch.* of a formula: use {says}$"):
            trace(lambda x, of=wrong: {"y": of(x)}, {"x": ("n",)})


def test_numbers_of_numpy_take_part_in_arithmetic() -> None:
    graph = trace(lambda x: {"y": np.float32(2.0) * x - np.float64(1.0)}, {"x": ("n",)})
    (found,) = evaluate(Inputs(graph, {"x": np.array([3.0])}, {}), Float64())[graph.outputs["y"]]
    assert found == 5.0


def ranks(x: Node, like: Node) -> Outputs:
    """The number of larger shares of each row, and of equal ones before."""
    e = exp(x - greatest(x, "n"))
    p = e / total(e, "n")
    other = take(p, position("m"), "n")
    earlier = where(position("m") < position("n"), 1.0, 0.0)
    return {"rank": total(where(other > p, 1.0, where(other < p, 0.0, earlier)) + like * 0.0, "m")}


RANKS = Op(ranks, (Operand("x", "... n"), Operand("like", "m")), (Operand("rank", "... n"),), fixed={"n": 4, "m": 4})


@pytest.mark.some(1)
@pytest.mark.parametrize("far", [120.0, 800.0, 3e6, 3e33])
def test_what_underflows_in_every_kernel_may_be_as_large_as_another(far: float) -> None:
    """Exactly e^-800 is larger than e^-801; float64 and kernels have zeros for both, of which the first comes first."""
    x = np.array([[-3.0, -2.0, 0.0, -1.0]]) * far
    of = Problem("ranks", {"axis": 1}, {"x": x.astype(np.float32), "like": np.ones(4, np.float32)}, {"rank": "f32"})
    with known(RANKS):
        for contract in (Contract(), Contract("f64"), Contract(denormals="flush")):
            outputs = simulate(of, contract, np.random.default_rng(0))
            assert [each.result for each in Truth(of).check(contract, outputs)] == ["pass"]
            compared, _, wrong = disagreements(of, contract, np.random.default_rng(1))
            assert compared
            assert not wrong
        [check_] = Truth(of).check(Contract(), {"rank": np.array([[3.0, 2.0, 2.0, 1.0]], np.float32)})
        assert check_.result == "numeric"


def blended(x: Node, like: Node) -> Outputs:
    """Elements blended by shares that are 0 from a distance of 1 on: beside every third place at a tie."""
    share = 1.0 - abs((position("m") + 0.5) * (extent("n") / extent("m")) - 0.5 - position("n"))
    return {"y": dot(x, where(share < 0.0, 0.0, share), "n") + like * 0.0}


def counted(x: Node, like: Node) -> Outputs:
    """The sum of the elements that are no further away than 1, among them what is at a tie."""
    share = 1.0 - abs((position("m") + 0.5) * (extent("n") / extent("m")) - 0.5 - position("n"))
    return {"y": dot(x, where(share < 0.0, 0.0, 1.0), "n") + like * 0.0}


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", [Contract(), Contract("f64"), Contract(denormals="flush")], ids=str)
def test_the_lesser_of_two_is_known_at_a_tie_as_what_jumps_there_is_not(contract: Contract) -> None:
    left = dict[str, int]()
    inputs = {"x": np.random.default_rng(4).normal(size=(1, 6)).astype(np.float32), "like": np.zeros(18, np.float32)}
    for of in (blended, counted):
        op = Op(of, (Operand("x", "... n"), Operand("like", "m")), (Operand("y", "... m"),))
        with known(op):
            problem = Problem(op.name, {"axis": 1}, inputs, {"y": "f32"})
            compared, left[op.name], wrong = disagreements(problem, contract, np.random.default_rng(1))
            assert compared
            assert not wrong, wrong[0]
            outputs = simulate(problem, contract, np.random.default_rng(0))
            assert [each.result for each in Truth(problem).check(contract, outputs)] == ["pass"]
    assert left["blended"] == 0 < left["counted"]
