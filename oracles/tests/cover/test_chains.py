"""Terms that a formula adds one by one may be added in any order, where a contract says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, avg, dot, exp, total, trace, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.tests.common.dims import problem
from oracles.tests.common.judged import known, results
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth

ANY, LAST = Contract(addend="any"), Contract()
_DIMS = {"a": ("m", "n"), "b": ("m", "n"), "c": ("n",), "w": ("m", "n")}


def mixed(a: Node, b: Node, c: Node, w: Node) -> Outputs:
    """Sums of terms and of sums, with changes of sign, that are outputs and exponents."""
    s = a + b
    t = s + c
    z = t - w * a - (b + w)
    u = exp(total(a * w, "n") + total(b, "n"))
    return {"y": a - (c - b) + 2.0 * a * w, "t": t, "z": z, "u": u, "v": dot(a, b, "n") - total(w * a, "n") + 1.0}


def running(a: Node, b: Node, c: Node, w: Node) -> Outputs:
    """Sums of which each is an output and goes on, and one that takes off what was added."""
    one = a + b
    two = one + c
    three = two - w
    return {"one": one, "two": two, "three": three, "four": three + a * w, "lost": (two - c) - one}


def some_exact(a: Node, b: Node, c: Node, w: Node) -> Outputs:
    """What is added to a is a number where c is none above zero, and else an exponential, which kernels round."""
    d = where(c <= 0.0, b, exp(b))
    return {"y": a + d + w}


INPUTS = tuple(Operand(name, " ".join(dims)) for name, dims in _DIMS.items())
MIXED = Op(mixed, INPUTS, tuple(Operand(name, "m" if name in "uv" else "m n") for name in "ytzuv"))
RUNNING = Op(running, INPUTS, tuple(Operand(name, "m n") for name in ("one", "two", "three", "four", "lost")))
MANY: tuple[Mapping[str, Any], ...] = (
    {}, {"fused": False}, {"denormals": "flush"}, {"nonfinite": "overflow"}, {"zeros": "any", "saturate": True},
    {"nonfinite": "unspecified"}, {"dtypes": {"t": "bf16", "two": "f16"}},
)  # fmt: skip


def plain(a: Node, b: Node, c: Node) -> Outputs:
    return {"y": a + b + c}


SOME = Op(some_exact, INPUTS, (Operand("y", "m n"),))
PLAIN = Op(plain, INPUTS[:3], (Operand("y", "m n"),))


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(MIXED, RUNNING, PLAIN, SOME):
        yield


def _terms(formula: Callable[..., Outputs], output: str = "y") -> list[tuple[str, float]]:
    """The terms of an output's chain, by what they are called, or their kinds; none where it has none."""
    graph = trace(formula, {name: dims for name, dims in _DIMS.items() if name in formula.__code__.co_varnames})
    chain = graph.chains.get(graph.outputs[output])
    terms = () if chain is None else chain.terms
    return sorted((graph.names.get(term.node, term.node.kind), term.sign) for term in terms)


def test_a_chain_has_its_terms_with_their_signs() -> None:
    assert _terms(lambda a, b, c: {"y": a - (c - b) + 2.0}) == [("a", 1), ("b", 1), ("c", -1), ("constant", 1)]
    assert _terms(lambda a, b, c: {"y": c - -(a + b)}) == [("a", 1), ("b", 1), ("c", 1)]
    assert _terms(lambda a, w: {"y": dot(a, w, "n") + total(a, "n")}) == [("dot", 1), ("sum", 1)]
    assert not _terms(lambda a, b: {"y": a * b + 1.0})
    assert _terms(lambda a, b: {"y": 2.0 * a - b}) == [("b", -1), ("multiply", 1)]
    assert _terms(lambda a, b, w: {"y": 2.0 * a * w - b}) == [("b", -1), ("multiply", 1)]
    assert not _terms(lambda a, b: {"y": 2.5 * a - b})
    assert not _terms(lambda a, b: {"y": 0.0 - 2.0 * a}), "nothing is added"
    assert not _terms(lambda a, b, c: {"y": a - (c - b) + c}), "c is added and taken off"


def two_sum(a: Node, b: Node) -> Outputs:
    s = a + b
    part = s - a
    return {"y": b - part}


def compensated(a: Node, b: Node, c: Node) -> Outputs:
    now = a + b
    lost = (now - a) - b
    return {"y": now + (c - lost)}


def centred(a: Node, b: Node) -> Outputs:
    h = a + b
    return {"y": h - avg(h, "n")}


def of_itself(a: Node, b: Node) -> Outputs:
    h = a + b
    return {"y": h + exp(h)}


@pytest.mark.parametrize("formula", [two_sum, compensated, centred, of_itself])
def test_where_the_order_is_the_algorithm_it_stays(formula: Callable[..., Outputs]) -> None:
    """What rounding lost is taken off again, and who has h + f(h) had h before: these are no sharper and no looser."""
    assert not _terms(formula)
    op = Op(formula, INPUTS[: formula.__code__.co_argcount], (Operand("y", "m n"),))
    with known(op):
        of = problem(op, {"m": 3, "n": 5}, (), "f32", 1, spread=4)
        any_order, last = (Truth(of).enclosures(contract, True)["y"].below for contract in (ANY, LAST))
    assert np.array_equal(any_order, last)


def test_what_goes_on_is_taken_apart_where_nothing_needs_it_whole() -> None:
    assert _terms(running, "four") == [("a", 1), ("b", 1), ("c", 1), ("multiply", 1), ("w", -1)]
    assert not _terms(running, "lost")


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [MIXED, RUNNING, SOME], ids=lambda op: op.name)
def test_correct_kernels_of_any_order_pass(op: Op) -> None:
    found, outside = [], 0
    for seed in range(8):
        random = np.random.default_rng(seed)
        extents = {dim: int(random.choice([0, 1, 2, 3, 9])) for dim in op.named}
        dtype, out = (("f32", ""), ("bf16", "f32"), ("f16", ""), ("f64", ""))[seed % 4]
        of = problem(op, extents, (), dtype, seed, out=out, spread=4 * (seed % 5))
        for more in MANY[seed // 4 :: 2]:
            more = {**more, "dtypes": {name: to for name, to in more.get("dtypes", {}).items() if name in "t two"}}
            contract = Contract("f64" if dtype == "f64" else "f32", addend="any", **more)
            got = simulate(of, contract, random)
            checks = Truth(of).check(contract, got)
            found += [(seed, dtype, extents, more, check) for check in checks if check.result != "pass"]
            outside += any(each.result != "pass" for each in Truth(of).check(Contract(contract.compute), got))
    assert not found, found[0]
    assert outside, "some order is another one than the formula's"


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_both_tiers_say_the_same(dtype: str) -> None:
    for op in (MIXED, RUNNING, SOME):
        of = problem(op, dict.fromkeys(op.named, 2), (), dtype, 1, spread=6)
        compared, _, wrong = disagreements(of, Contract(dtype, addend="any"), np.random.default_rng(0))
        assert compared
        assert not wrong


def _sum(a: Any, b: Any, c: Any) -> Problem:
    inputs = {"a": np.array([a], np.float32), "b": np.array([b], np.float32), "c": np.array(c, np.float32)}
    return Problem("plain", {"axis": 1}, inputs, {"y": "f32"})


def _one(of: Problem, y: float) -> str:
    found: NDArray[np.float32] = np.array([[y]], np.float32)
    return results(of, ANY, {"y": found})[0]


def test_what_cancels_may_be_any_of_the_orders_and_nothing_else() -> None:
    of = _sum([2.0**24], [-(2.0**24)], [1.0])
    assert _one(of, 1.0) == _one(of, 0.0) == "pass"  # 2^24 + (-2^24 + 1) is 1, and (2^24 + 1) - 2^24 is 0
    assert results(of, LAST, {"y": np.zeros((1, 1), np.float32)}) == ["numeric"]
    assert _one(of, 4.5) == _one(of, -2.5) == "numeric"


def twice(a: Node, b: Node) -> Outputs:
    return {"y": 2.0 * a - b}


def test_a_whole_number_times_a_term_may_be_added_one_by_one() -> None:
    """2 a - b may be a + (a - b), which is off by another rounding."""
    a, b = (np.array([[each]], np.float32) for each in (128.00435, 16384.0))
    with known(Op(twice, INPUTS[:2], (Operand("y", "m n"),))):
        of, right, other = Problem("twice", {}, {"a": a, "b": b}, {"y": "f32"}), 2 * a - b, a + (a - b)
        assert right != other
        for contract, y, said in (
            (ANY, right, "pass"), (ANY, other, "pass"), (ANY, right * np.float32(1 + 2.0**-21), "numeric"),
            (LAST, right, "pass"), (LAST, other, "numeric"),
        ):  # fmt: skip
            assert results(of, contract, {"y": y}) == [said]


def test_whole_numbers_stay_exact() -> None:
    of = _sum([1048575.0], [-7.0], [65536.0])
    assert _one(of, 1114104.0) == "pass"
    assert _one(of, np.nextafter(np.float32(1114104.0), np.float32(0.0))) == "numeric"
    assert _one(_sum([3.0], [-3.0], [0.0]), 1e-30) == "numeric"
    assert _one(_sum([1.5], [2.0**-24], [0.0]), np.nextafter(np.float32(1.5), np.float32(2.0))) == "numeric", "no third"


def test_what_is_exact_is_so_beside_what_is_not() -> None:
    a, b, w = (np.array([each] * 2, np.float32).T for each in ([3.0], [4.0], [5.0]))
    inputs = {"a": a, "b": b, "c": np.array([0.0, 1.0], np.float32), "w": w}
    of = Problem("some_exact", {"axis": 1}, inputs, {"y": "f32"})
    y = np.array([[12.0, 8.0 + np.exp(4.0)]], np.float32)
    assert results(of, ANY, {"y": y}) == ["pass"]
    y[0, 0] = np.nextafter(y[0, 0], np.float32(13.0))
    assert results(of, ANY, {"y": y}) == ["numeric"]


def test_beside_an_infinity_others_may_overflow_to_the_other_side_first() -> None:
    of = _sum([3e38], [-np.inf], [3e38])
    assert _one(of, -np.inf) == _one(of, np.nan) == "pass"  # 3e38 + 3e38 is an infinity by itself
    of = _sum([3e38], [-np.inf], [1e37])
    assert _one(of, -np.inf) == "pass"
    assert _one(of, np.nan) == "nonfinite"
