"""Places and indices are whole numbers in every kernel; what near-ties decide is left to the precise tier."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, dot, exp, extent, floor, greatest, position, take, total, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.summation import AnyOrder
from oracles.tests.common.judged import known
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth


def window(x: Node, weight: Node, like: Node) -> Outputs:
    """y[o] = sum over w of weight[w] x[o - (W - 1) + w], 0 outside."""
    at = position("o") - (extent("w") - 1.0) + position("w")
    inside = where(at < -0.5, 0.0, where(at < extent("t") - 0.5, 1.0, 0.0))
    seen = where(inside > 0.5, take(x, where(inside > 0.5, at, 0.0), "t"), 0.0)
    return {"y": dot(seen, weight, "w")}


def mirrored(x: Node, like: Node) -> Outputs:
    """y[o] = x[o], and from the last element on backwards."""
    last = extent("n") - 1.0
    return {"y": take(x, last - abs(last - position("o")), "n") + like * 0.0}


def halves(x: Node, like: Node) -> Outputs:
    """y[o] = x[o] x[o + n/2] in the first quarter, as of a gate and what it lets through, and 0 after."""
    half = extent("n") / 2.0
    product = take(x, position("o"), "n") * take(x, position("o") + half, "n")
    return {"y": where(position("o") < half / 2.0, product, 0.0) + like * 0.0}


def weights(q: Node, k: Node) -> Outputs:
    """y = the weights of attention."""
    scores = (dot(q, k, "d") + dot(q, q, "d")) / 3.0
    e = exp(scores - greatest(scores, "t"))
    return {"y": e / total(e, "t")}


def picked(x: Node, label: Node) -> Outputs:
    """y = e^x of the label's place, or of the last where it is 0, which stands for none."""
    last = extent("n") - 1.0
    return {"y": exp(take(x, where(label == 0.0, last, label), "n"))}


def second(x: Node, experts: Node, k: Node) -> Outputs:
    """index = the places of the two largest of softmax(x), ties to the lower place."""
    e = exp(x - greatest(x, "n"))
    p = e / total(e, "n")
    other = take(p, position("m"), "n")
    earlier = where(position("m") < position("n"), 1.0, 0.0)
    rank = total(where(other > p, 1.0, where(other < p, 0.0, earlier)), "m")
    j = position("j")
    return {"index": total(where(rank < j, 0.0, where(rank > j, 0.0, position("n"))), "n")}


def blocks(like: Node, label: Node) -> Outputs:
    """The blocks of 4 before each place that labels of one kind or another fill."""
    count = total(where(label == position("kind", 3.0), 1.0, 0.0), "t")
    return {"y": total(where(-floor(-(count / 4.0)) <= position("n"), 1.0, 0.0), "kind")}


X = Operand("x", "... n")
OPS = (
    Op(
        blocks,
        (Operand("like", "n"), Operand("label", "t", dtype="int64", index="kind")),
        (Operand("y", "n", dtype="int32"),),
    ),
    Op(
        window,
        (Operand("x", "d t"), Operand("weight", "d w"), Operand("like", "o")),
        (Operand("y", "d o"),),
    ),
    Op(mirrored, (X, Operand("like", "o")), (Operand("y", "... o"),)),
    Op(halves, (X, Operand("like", "o")), (Operand("y", "... o"),)),
    Op(weights, (Operand("q", "s d"), Operand("k", "t d")), (Operand("y", "s t"),)),
    Op(picked, (X, Operand("label", "...", dtype="int64", index="n")), (Operand("y", "..."),)),
    Op(
        second,
        (X, Operand("experts", "m"), Operand("k", "j")),
        (Operand("index", "... j"),),
        fixed={"n": 8, "m": 8, "j": 2},
    ),
)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*OPS):
        yield


@pytest.mark.parametrize("compute", ["f32", "bf16"])
def test_an_index_made_of_places_is_the_same_in_every_kernel(compute: str) -> None:
    rng = np.random.default_rng(2)
    inputs = {
        "x": rng.normal(size=(2, 300)).astype(np.float32),
        "weight": rng.normal(size=(2, 3)).astype(np.float32),
        "like": np.zeros(301, np.float32),
    }
    problem = Problem("window", {}, inputs, {"y": "f32"})
    contract = Contract(compute=compute)
    truth, got = Truth(problem), simulate(problem, contract, rng)
    assert truth.check(contract, got)[0].result == "pass"
    wrong = {"y": got["y"].copy()}
    wrong["y"][:, 1:] = got["y"][:, :-1]
    (check,) = truth.check(contract, wrong)
    assert check.result == "numeric"
    assert check.worst_index is not None
    assert truth.explain(contract, "y", check.worst_index, float(wrong["y"][check.worst_index])).terms


@pytest.mark.parametrize("compute", ["f32", "bf16"])
def test_half_of_an_extent_beside_a_place_is_no_number_that_a_kernel_rounds(compute: str) -> None:
    """In bf16 the place 259 + 258 would be 518, beyond the end of 518 elements."""
    x = np.random.default_rng(3).choice([1.0, 2.0, 4.0], size=(2, 518)).astype(np.float32)
    right = np.where(np.arange(259) < 129.5, x[:, :259] * x[:, 259:], 0.0).astype(np.float32)
    truth = Truth(Problem("halves", {}, {"x": x, "like": np.zeros(259, np.float32)}, {"y": "f32"}))
    assert truth.check(Contract(compute), {"y": right})[0].result == "pass"
    for place in (128, 129):
        wrong = right.copy()
        wrong[0, place] = 32.0
        assert truth.check(Contract(compute), {"y": wrong})[0].result == "numeric"


def test_no_elements_have_a_maximum_that_no_one_needs() -> None:
    q, k = np.ones((2, 3), np.float32), np.ones((0, 3), np.float32)
    of = Problem("weights", {}, {"q": q, "k": k}, {"y": "f32"})
    assert [*FormulaProblem(of).enclose(Contract(addend="any"), False)] == ["y"]


def test_a_mirrored_index_is_a_whole_number_where_kernels_keep_few_bits() -> None:
    x = np.random.default_rng(3).normal(size=(1, 700)).astype(np.float32)
    right = np.concatenate([x, x[:, -2::-1]], 1)
    truth = Truth(Problem("mirrored", {"axis": 1}, {"x": x, "like": np.zeros(1399, np.float32)}, {"y": "f32"}))
    for compute in ("f32", "bf16"):
        contract = Contract(compute, dtypes={"y": "f32"})
        assert [each.result for each in truth.check(contract, {"y": right})] == ["pass"]
        assert truth.check(contract, {"y": np.roll(right, 1)})[0].result == "numeric"


def test_an_index_that_is_chosen_is_explained() -> None:
    inputs = {"x": np.array([[0.5, 1.5, 2.5]] * 2, np.float32), "label": np.array([0, 1])}
    problem = Problem("picked", {}, inputs, {"y": "f32"})
    truth, right = Truth(problem), {"y": np.exp(np.array([2.5, 1.5])).astype(np.float32)}
    assert truth.check(Contract(), right)[0].result == "pass"
    (check,) = truth.check(Contract(), {"y": right["y"][::-1].copy()})
    assert check.failing == 2
    told = truth.explain(Contract(), "y", (0,), float(right["y"][1]))
    assert [term.name for term in told.terms] == ["y", "rounding"]


def test_near_ties_that_decide_ranks_are_left_to_the_precise_tier() -> None:
    """e^x is 0 in float64 where the exact one is not: float64 has another order than the exact values."""
    words = ["ce6e71fe", "ce6e786c", "ce6e7849", "ce6e6d0d", "ce6e76cd", "ce6e70ce", "ce6e6ec6", "ce6e74ae"]
    x = np.array([int(word, 16) for word in words], np.uint32).view(np.float32)
    inputs = {"x": x, "experts": np.zeros(8, np.float32), "k": np.zeros(2, np.float32)}
    contract = Contract(sums=dict.fromkeys("nmj", AnyOrder()), nonfinite="unspecified")
    truth = Truth(Problem("second", {}, inputs, {"index": "f32"}))
    for got in ([3.0, 7.0], [3.0, 0.0]):
        assert truth.check(contract, {"index": np.array(got, np.float32)})[0].result == "pass"
    assert truth.check(contract, {"index": np.array([40.0, 7.0], np.float32)})[0].result == "numeric"


def test_counts_of_labels_and_their_quotients_by_a_power_of_two_are_whole_to_every_kernel() -> None:
    """Each element was asked of the precise tier, which took a minute for 4,096 of them and gave up then."""
    labels = np.repeat([0, 1, 2], [8, 5, 0])
    truth = Truth(Problem("blocks", {}, {"like": np.zeros(9, np.float32), "label": labels}, {"y": "int32"}))
    right, contract = np.array([1, 1, 3, 3, 3, 3, 3, 3, 3], np.int32), Contract(accuracy={"divide": 2.0})
    (check,) = truth.check(contract, {"y": right})
    assert (check.result, check.escalated) == ("pass", 0)
    assert truth.check(contract, {"y": right - (np.arange(9) == 2).astype(np.int32)})[0].result == "numeric"
