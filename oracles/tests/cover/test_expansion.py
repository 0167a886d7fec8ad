"""Products of sums may be multiplied out, or another factor taken out of what is added, where a contract says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pytest

from oracles.formula.contract import COLLECTED, EXPANDED, LERP, STEPS, Contract
from oracles.formula.expansion import expanded
from oracles.formula.trace import Node, Outputs, exp, extent, trace
from oracles.neighbours import neighbours
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.tests.common.dims import problem
from oracles.tests.common.judged import known
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def step(a: Node, b: Node, c: Node) -> Outputs:
    """A step from a to b, and e to a power that is a product of a sum."""
    return {"y": a + c * (b - a), "z": exp((a - b) * 0.25) * (1.0 - c)}


def average(a: Node, b: Node, c: Node) -> Outputs:
    """Two parts of one, and a square."""
    return {"y": 0.9 * a + 0.1 * b, "z": (a - c) * (a - c) / b}


_INPUTS = tuple(Operand(name, dims) for name, dims in (("a", "m n"), ("b", "m n"), ("c", "n")))
_OUTPUTS = tuple(Operand(name, "m n") for name in "yz")
STEP, AVERAGE = Op(step, _INPUTS, _OUTPUTS), Op(average, _INPUTS, _OUTPUTS)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(STEP, AVERAGE):
        yield


def _spelled(node: Node) -> str:
    if node.kind == "constant":
        return f"{node.value:g}"
    args = [_spelled(arg) for arg in node.args]
    if node.kind in _SIGNS:
        return f"({_SIGNS[node.kind].join(args)})"
    return f"{node.operation}({','.join(args)})" if args else node.label


def _ways(formula: Callable[..., Outputs], ways: Sequence[str] = (EXPANDED, *COLLECTED)) -> list[str]:
    """An output, multiplied out, then with its first and its last factor taken out; '' where that is the formula."""
    graph = trace(formula, dict.fromkeys(formula.__code__.co_varnames, ("n",)))
    found = [expanded(graph, way) for way in ways]
    return ["" if each is graph else _spelled(each.outputs["y"]) for each in found]


def test_products_of_sums_are_multiplied_out() -> None:
    assert _ways(lambda x, m, r: {"y": (x - m) * r})[0] == "((x*r)-(m*r))"
    assert _ways(lambda x, m, r: {"y": exp(-(x - m) / r)})[0] == "exp((negate((x/r))+(m/r)))"
    assert _ways(lambda a, b: {"y": (a + b) * (a - b)})[0] == "((((a*a)-(a*b))+(b*a))-(b*b))"
    assert _ways(lambda a, t: {"y": (1.0 - t) * a})[0] == "(a-(t*a))"


def test_then_another_factor_is_taken_out() -> None:
    assert _ways(lambda a, b, t: {"y": a + t * (b - a)})[1:] == ["(((1-t)*a)+(t*b))", "(a+((b-a)*t))"]
    assert _ways(lambda a, b, t: {"y": (1.0 - t) * a + t * b})[1:] == ["(((1-t)*a)+(t*b))", "(a+((negate(a)+b)*t))"]
    assert _ways(lambda a, b: {"y": a + 0.1 * (b - a)})[1:] == ["((0.9*a)+(0.1*b))"] * 2
    assert _ways(lambda a, b: {"y": 0.9 * a + 0.1 * b}) == ["", *["((1*a)+(0.1*(b-a)))"] * 2]
    assert _ways(lambda a, b: {"y": 0.1 * a + 0.9 * b}) == ["", *["((1*b)+(0.1*(a-b)))"] * 2]


def test_a_step_between_two_values_is_made_from_either_end_too() -> None:
    """As torch.lerp makes it, of a share or of what that leaves of one."""
    of_a = ["(b-((b-a)*(1-t)))", "(a-((a-b)*(1-(1-t))))"]
    assert _ways(lambda a, b, t: {"y": a + t * (b - a)}, STEPS) == of_a
    assert _ways(lambda a, b, t: {"y": (1.0 - t) * a + t * b}, STEPS) == of_a
    assert _ways(lambda a, b, t: {"y": t * b + a * (1.0 - t)}, STEPS) == of_a
    assert _ways(lambda a, b, t: {"y": a + t * (b - a)}, LERP) == of_a
    assert _ways(lambda a, b: {"y": 0.9 * a + 0.1 * b}, LERP) == ["((1*a)-((a-b)*(1-0.9)))", "((1*b)-((b-a)*(1-0.1)))"]
    assert _ways(lambda a, b: {"y": 0.75 * a + 0.25 * b}, LERP) == ["(a-((a-b)*(1-0.75)))", "(b-((b-a)*(1-0.25)))"]
    assert not any(_ways(lambda a, b: {"y": 0.9 * a + 0.1 * b}, STEPS)), "a number has its share exactly"
    within = _ways(lambda a, b, t: {"y": (a + t * (b - a)) * (a + b) + exp(t)}, STEPS)
    assert within == [f"(({step}*(a+b))+exp(t))" for step in of_a]
    for formula in (
        lambda a, b, t: {"y": t * a + ((1.0 - t) * b + a)},
        lambda a, b, t: {"y": t * a + (2.0 - t) * b},
        lambda a, b, t: {"y": t * a - (1.0 - t) * b},
        lambda a, b, t: {"y": t * a + (1.0 - b) * b},
    ):
        assert not any(_ways(formula, STEPS)), formula


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, b: {"y": a * b + exp(a)},
        lambda a: {"y": a * (extent("n") - 1.0)},
        lambda a, b: {"y": 0.9 * a + 0.2 * b},
    ],
)
def test_what_has_none_stays_as_it_is(formula: Callable[..., Outputs]) -> None:
    """A number that is known before any tensor is no sum of terms."""
    assert not any(_ways(formula))


def test_what_would_have_too_many_terms_stays_as_it_is() -> None:
    def power(a: Node, b: Node) -> Outputs:
        return {"y": (a + b) * (a + b) * (a + b) * (a + b) * (a + b)}

    [whole, *_] = _ways(power)
    assert whole.count("*") == 16 * 3 + 1
    assert whole.endswith("*(a+b))")


def average_of_many(m: Node, g: Node) -> Outputs:
    """A moving average of a thousand."""
    return {"y": 0.999 * m + (1.0 - 0.999) * g}


def test_a_constant_that_is_off_is_no_arrangement_of_the_right_one() -> None:
    """In f32 0.999 leaves 1.3e-5 too little of one: torch.lerp of it does so by its name, and nothing else."""
    op = Op(average_of_many, tuple(Operand(name, "m n") for name in "mg"), (Operand("y", "m n"),))
    random, b = np.random.default_rng(1), np.float32(0.999)
    m, g = (random.standard_normal((8, 64)).astype(np.float32) for _ in "mg")
    m[:, ::2] *= np.float32(2.0**-12)
    step, rounded, far = m + np.float32(0.001) * (g - m), b * m + (1 - b) * g, g + b * (m - g)
    off = np.float32(0.999013) * m + np.float32(1 - 0.999013) * g
    ways: Mapping[Literal[False, True, "lerp"], Sequence[bool]] = {
        False: (False, False, False, False), True: (True, False, False, False), "lerp": (True, True, True, False)
    }  # fmt: skip
    with known(op):
        truth = Truth(Problem(op.name, {}, {"m": m, "g": g}, {"y": "f32"}))
        for way, right in ways.items():
            checks = (truth.check(Contract("f32", expanded=way), {"y": y})[0] for y in (step, rounded, far, off))
            assert tuple(each.result == "pass" for each in checks) == right, way


@pytest.mark.some(2)
@pytest.mark.parametrize("arranged", [True, "lerp"])
@pytest.mark.parametrize("op", [STEP, AVERAGE], ids=lambda op: op.name)
def test_correct_kernels_by_any_way_pass(op: Op, arranged: Literal[True, "lerp"]) -> None:
    outside = 0
    for seed in range(6):
        dtype, out = (("f32", ""), ("bf16", "f32"), ("f64", ""))[seed % 3]
        of = problem(op, {"m": 3, "n": 5}, (), dtype, seed, out=out, spread=4 * (seed % 4))
        plain = Contract("f64" if dtype == "f64" else "f32", fused=seed % 2 == 0)
        contract = Contract(plain.compute, fused=plain.fused, expanded=arranged)
        got = simulate(of, contract, np.random.default_rng(seed))
        assert [each.result for each in Truth(of).check(contract, got)] == ["pass"] * 2, (seed, dtype)
        outside += any(each.result != "pass" for each in Truth(of).check(plain, got))
    assert outside, "another way errs otherwise than the formula's"


def test_both_tiers_say_the_same() -> None:
    for op in (STEP, AVERAGE):
        of = problem(op, {"m": 2, "n": 2}, (), "f32", 1, spread=6)
        compared, _, wrong = disagreements(of, Contract(expanded=True), np.random.default_rng(0))
        assert compared
        assert not wrong, wrong[0]


def test_it_is_a_neighbour_where_it_says_something() -> None:
    changed = [{each.changed for each in neighbours(op, Contract())} for op in (STEP, AVERAGE, OPS["softmax"])]
    assert [("expanded",) in each for each in changed] == [True, True, False]
    found = [each.contract.expanded for op in (STEP, AVERAGE) for each in neighbours(op, Contract())]
    assert [each for each in found if each] == [True, True, "lerp"]
