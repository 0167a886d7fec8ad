"""Means that shares weight lie between the values, however large the scores are that the shares are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, dot, exp, exp2, greatest, online_total, point, total, trace, where
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.truth import Truth

_SHARP = {
    "formula": Contract(),
    "online": Contract(algorithm={"mass": "online", "acc": "online"}),
    "others": Contract(algorithm={"o": ("formula", "shares", "sum")}),
}
_WAYS = {
    **_SHARP,
    "half online": Contract(algorithm={"acc": "online"}),
    "points": Contract(points={"p": "maybe bf16"}, algorithm=dict.fromkeys(("mass", "acc"), ("formula", "online"))),
    "flushed": Contract("f32", denormals="flush", wider=True),
    "mixed": Contract("f32", fused=False, dtypes={"s": "f64"}),
    "f64": Contract("f64"),
    "bf16": Contract("bf16"),
}
F32 = NDArray[np.float32]


def attention(scores: list[float], values: list[float], output: str = "o") -> Problem:
    """One query, whose scores of keys these are to f32."""
    q = np.ones((1, 1, 1, 1, 1), np.float32)
    k, v = (np.array(each, np.float32).reshape(1, 1, -1, 1) for each in (scores, values))
    return Problem("attention", {"softmax_scale": 1.0}, {"q": q, "k": k, "v": v}, {output: "f32"})


def results(problem: Problem, contract: Contract, *returned: float) -> list[str]:
    """The judgements of an only element, of each of these values."""
    ((name, _),) = problem.outputs.items()
    shape = (1, 1, 1, 1, 1) if name == "o" else (1, 1, 1, 1)
    truth = Truth(problem)
    return [truth.check(contract, {name: np.full(shape, each, np.float32)})[0].result for each in returned]


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", _SHARP.values(), ids=_SHARP)
@pytest.mark.parametrize("score", [1e6, -3e6, 1e7, 1e8])
def test_the_mean_of_one_value_is_that_value(contract: Contract, score: float) -> None:
    wrong = 0.35, 1.001, -1.0, 3e38, float("nan"), float("inf")
    assert results(attention([score], [1.0]), contract, 1.0, *wrong) == ["pass", *["numeric"] * 4, *["nonfinite"] * 2]
    assert results(attention([score], [-3.0]), contract, -3.0, -2.99, 3.0) == ["pass", "numeric", "numeric"]


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", _SHARP.values(), ids=_SHARP)
def test_a_mean_lies_between_the_values_that_may_have_a_share(contract: Contract) -> None:
    problem = attention([3e7, 3e7, 1e7], [1.0, 2.0, 100.0])
    inside, outside = ["pass"] * 3, ["numeric"] * 3
    assert results(problem, contract, 1.0, 1.7, 2.0, 0.99, 2.01, 36.0) == inside + outside
    assert results(attention([3e7, 3e7], [-1.0, 2.0]), contract, -1.0, 0.0, 2.0, -1.01, 2.01, -4.0) == inside + outside


def test_the_sum_of_exponentials_is_at_least_one_and_at_most_their_number() -> None:
    lse = attention([3e7, 3e7], [1.0, 2.0], "lse")
    assert results(lse, Contract(), 3e7, 3e7 - 1e3, float("inf"), float("nan"))[:2] == ["pass", "numeric"]
    assert results(lse, Contract(), float("inf"), float("nan")) == ["nonfinite"] * 2


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", _WAYS.values(), ids=_WAYS)
def test_without_a_score_there_is_nothing_to_bound(contract: Contract) -> None:
    assert results(attention([], []), contract, 0.0, 1.0) == ["pass", "numeric"]
    assert results(attention([], [], "lse"), contract, -np.inf, 1.0)[0] == "pass"


def test_a_product_that_the_difference_takes_as_it_is_may_overflow() -> None:
    """The maximum is rounded and the score is not: at 1e12 the exponential of what is left has no bound."""
    assert results(attention([1e12], [1.0]), Contract(), float("nan")) == ["pass"]
    assert results(attention([1e12], [1.0]), Contract(fused=False), 1.0, 1.1) == ["pass", "numeric"]


@pytest.mark.some(1)
@pytest.mark.parametrize("score", [1e10, 1e12, 1e30, 3e38])
def test_what_is_a_number_beside_such_an_overflow_lies_between_the_values(score: float) -> None:
    """Both sums have the same weights, and those that are no zero lose half of one in the product at most."""
    one = results(attention([score], [4.0]), Contract(), 4.0, 2.0, 7.0, -4.0, 1e3, 3e38)
    assert one == ["pass", *["numeric"] * 5]
    for contract in (Contract(), _SHARP["others"]):
        among = results(attention([score, score, -score], [1.0, 8.0, 99.0]), contract, 1.0, 5.0, 8.0, 200.0, -3.0)
        assert among == [*["pass"] * 3, *["numeric"] * 2]


@pytest.mark.some(1)
@pytest.mark.parametrize("cap", [0.0, 30.0])
def test_gradients_by_what_overflows_are_open_only_where_shares_are(cap: float) -> None:
    """Scores of 1e38 are all 30 or -30 with a cap, which they do not change any more: no gradient reaches them."""
    rng, shape = np.random.default_rng(4), (1, 1, 1, 2, 3)
    inputs = {name: (rng.standard_normal(shape) * 1e19).astype(np.float32) for name in ("q", "k", "v", "dy")}
    inputs |= {name: inputs[name][:, :, 0] for name in ("k", "v")}
    of = Problem("attention_backward", {"softmax_scale": 1.0, "cap": cap}, inputs, {"dq": "f32"})
    (check,) = Truth(of).check(Contract(), {"dq": np.full(shape, 3.0, np.float32)})
    assert (check.result == "pass") == (not cap)


@pytest.mark.some(1)
@pytest.mark.parametrize("contract", _WAYS.values(), ids=_WAYS)
def test_correct_kernels_of_large_scores_pass(contract: Contract) -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        h, i, j, d = (int(rng.integers(1, most)) for most in (3, 4, 6, 4))
        q = 10.0 ** rng.uniform(3, 12) * rng.standard_normal((1, 1, h, i, d))
        k = 1.0 + rng.standard_normal((1, 1, j, d)) * 10.0 ** rng.uniform(-9, 0)
        v = rng.standard_normal((1, 1, j, 2)) * 10.0 ** rng.uniform(-3, 4)
        inputs = {name: each.astype(np.float32) for name, each in (("q", q), ("k", k), ("v", v))}
        if rng.integers(2):
            inputs["mask"] = rng.integers(0, 3, (1, i, j)) > 0
        parameters = {"softmax_scale": 0.125, "causal": float(rng.integers(3))}
        of = Problem("attention", parameters, inputs, {"o": "f32", "lse": "f32"})
        with np.errstate(all="ignore"):
            got = simulate(of, contract, rng)
        assert [each.result for each in Truth(of).check(contract, got)] == ["pass", "pass"]


def _fused(s: F32, v: F32, scale: np.float32, base: Callable[[F32], F32]) -> F32:
    """Shares of powers of differences that take the products of scores as they are, as flash attention has them."""
    most, mass, acc = np.float32(-np.inf), np.float32(0), np.zeros(v.shape[1], np.float32)
    for block in np.array_split(np.arange(len(s)), 2):
        new = max(most, *(s[block] * scale), most)
        shares = base((s[block] * np.float64(scale) - np.float64(new)).astype(np.float32))
        again = base(np.asarray(most - new, np.float32)) if np.isfinite(most) else np.float32(0)
        mass, acc, most = mass * again + shares.sum(), acc * again + shares @ v[block], new
    found: F32 = acc / mass
    return found


@pytest.mark.some(1)
@pytest.mark.parametrize("base", [np.exp, np.exp2], ids=lambda base: str(base.__name__))
def test_kernels_that_fuse_the_product_with_the_difference_pass(base: Callable[[F32], F32]) -> None:
    rng, log = np.random.default_rng(3), 1.0 if base is np.exp else np.log2(np.e)
    for _ in range(60):
        j = int(rng.integers(2, 7))
        s = (10.0 ** rng.uniform(3, 9) * (1 + rng.standard_normal(j) * 10.0 ** rng.uniform(-9, 0))).astype(np.float32)
        v = (rng.standard_normal((j, 3)) * 10.0 ** rng.uniform(-3, 4)).astype(np.float32)
        inputs = {"q": np.ones((1, 1, 1, 1, 1), np.float32), "k": s.reshape(1, 1, j, 1), "v": v.reshape(1, 1, j, 3)}
        of = Problem("attention", {"softmax_scale": 0.125}, inputs, {"o": "f32"})
        with np.errstate(all="ignore"):
            got = _fused(s, v, np.float32(0.125 * log), base).reshape(1, 1, 1, 1, 3)
        (check,) = Truth(of).check(Contract(algorithm={"mass": "online", "acc": "online"}), {"o": got})
        assert check.result == "pass"


def _mean(x: Node, v: Node) -> Outputs:
    e = exp(x - greatest(x, "n"))
    return {"y": dot(e, v, "n") / total(e, "n")}


def _guarded(x: Node, v: Node) -> Outputs:
    most = greatest(x, "n")
    e = exp2(x - where(most <= -np.inf, 0.0, most))
    return {"y": total(point(e) * v, "n") * (1.0 / total(e, "n"))}


def _shares_first(x: Node, v: Node) -> Outputs:
    e = exp(x - greatest(x, "n"))
    return {"y": dot(v, e / online_total(x, "n"), "n")}


@pytest.mark.parametrize("formula", [_mean, _guarded, _shares_first])
def test_means_are_known_however_they_are_spelled(formula: Callable[..., Outputs]) -> None:
    graph = trace(formula, {"x": ("m", "n"), "v": ("n",)})
    mean = graph.shares.means[graph.outputs["y"]]
    assert mean.value is graph.named("v")
    assert mean.exponential is graph.named("e")


@pytest.mark.parametrize(
    "formula",
    [
        lambda x, v: {"y": dot(exp(x - greatest(v, "n")), v, "n") / total(exp(x - greatest(x, "n")), "n")},
        lambda x, v: {"y": dot(exp(x), v, "n") / total(exp(x), "n")},
        lambda x, v: {"y": dot(exp(x - where(greatest(x, "n") <= 0.0, 0.0, greatest(x, "n"))), v, "n")},
    ],
)
def test_what_is_no_mean_is_none(formula: Callable[..., Outputs]) -> None:
    graph = trace(formula, {"x": ("m", "n"), "v": ("n",)})
    assert graph.outputs["y"] not in graph.shares.means
