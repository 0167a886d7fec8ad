"""Budgets from formulas: never too narrow for a correct kernel, narrow enough."""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.algorithm import traced as op_traced
from oracles.dtypes import form
from oracles.formula.affine import reductions
from oracles.formula.affine.budget import Budget
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Node, Outputs, avg, rsqrt, total, trace, where
from oracles.simulated.simulation import Simulated
from oracles.summation import Lanes, NumericsError, Pairwise, Sequential, Summation, Tiles, VectorLanes
from oracles.tests.common.formulas import EPS, FORMULAS, HARD, traced
from oracles.tests.common.ops import LAYER_NORM, SOFTMAX
from oracles.tests.common.simulated import allowed, simulated
from oracles.tests.common.supremum import supremum
from oracles.tests.common.whole import WHOLE

F16 = Contract("f16")


@pytest.mark.some(1)
@pytest.mark.parametrize("name", FORMULAS)
def test_no_correct_kernel_is_outside(name: str) -> None:
    for dtype, contract, structured in ((np.float32, Contract("f32"), False), (np.float16, Contract("f32"), True)):
        found = simulated(name, dtype, 33, 6, contract, seed=3, structured=structured)
        assert not found.outside, found
        assert found.elements > 1000
    found = simulated(name, np.float16, 9, 6, F16, seed=4)
    assert not found.outside, found


OTHERS = {
    "tiles": Contract("f32", sums={"n": Tiles(8), "k": Tiles(8), "j": Tiles(8), "d": Tiles(4), "...": Tiles(2)}),
    "functions": Contract("f32", accuracy={"rsqrt": 4.0, "exp": 8.0, "divide": 2.5}, mean="reciprocal"),
    "flush operands": Contract("f32", denormals="flush operands"),
    "flush results": Contract("f32", denormals="flush results"),
    "wild": Contract("f32", nonfinite="unspecified", saturate=True, zeros="any"),
    "dtypes": Contract("f32", dtypes={"rstd": "f16", "var": "f16", "mean": "f16"}),
    "points": Contract("f32", points={"p": "f16"}, fused=False),
}
OF_EACH_KIND = ("rms_norm", "layer_norm", "layer_norm_backward", "softmax_backward", "attention")


@pytest.mark.some(1)
@pytest.mark.parametrize(("other", "name"), list(product(OTHERS, OF_EACH_KIND)))
def test_nor_under_other_contracts(other: str, name: str) -> None:
    found = simulated(name, np.float32, 17, 4, OTHERS[other], seed=8)
    assert not found.outside, found


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("name", "share"), [("rms_norm", 0.3), ("softmax", 0.5), ("gelu_tanh", 0.5), ("silu_mul", 0.5), ("rotary", 0.5)]
)
def test_with_a_part_of_it_correct_kernels_are_outside(name: str, share: float) -> None:
    """A budget that no kernel comes near would find nothing."""
    assert simulated(name, np.float32, 2, 60, Contract("f32"), seed=5, share=share).outside


@pytest.mark.parametrize("denormals", ["flush operands", "flush results"])
def test_what_a_kernel_flushes_it_must_have_declared(denormals: Any) -> None:
    """Half the smallest number times 3: a kernel that flushes operands has 0 for the sum's terms or for what is made of
    them, one that flushes results for the product."""

    def scaled(x: Node, dy: Node) -> Outputs:
        product = x * dy
        return {"y": product * 3.0}

    graph = trace(scaled, {"x": ("n",), "dy": ("n",)})
    tiny = np.finfo(np.float32).tiny
    for x, dy, flushers in (
        (np.full(64, tiny / 2), np.full(64, 4.0), {"flush operands"}),
        (np.full(64, tiny), np.full(64, 0.5), {"flush operands", "flush results"}),
    ):
        inputs = Inputs(graph, {"x": x.astype(np.float32), "dy": dy.astype(np.float32)}, {})
        for promised in ("preserve", denormals):
            kernel = Simulated(inputs, Contract("f32", denormals=denormals), np.random.default_rng(1))
            got = kernel.output("y", "f32")
            inside = allowed(Budget(inputs, Contract("f32", denormals=promised), True), "y", "f32", got)
            assert inside.all() == (promised == denormals or denormals not in flushers), (promised, x[0])


def test_a_partial_sum_may_be_flushed_too() -> None:
    graph = trace(lambda x: {"y": total(x, "n")}, {"x": ("n",)})
    unit = np.finfo(np.float32).tiny
    x = np.array([1.0, -0.75, 1.0, -1.5] * 16, np.float32) * unit * 2
    inputs, contract = Inputs(graph, {"x": x}, {}), Contract("f32", denormals="flush results")
    budget = Budget(inputs, contract, True)
    for seed in range(20):
        got = Simulated(inputs, contract, np.random.default_rng(seed)).output("y", "f32")
        assert allowed(budget, "y", "f32", got).all()


def test_what_becomes_of_infinities_may_be_left_open() -> None:
    x = np.array([[1.0, np.inf], [1.0, 2.0], [3e38, 3e38]], np.float32)
    inputs = Inputs(traced("rms_norm"), {"x": x, "weight": np.ones(2, np.float32)}, {"eps": EPS})
    marked = [
        Budget(inputs, contract).output("y", "f32").may
        for contract in (Contract("f32"), Contract("f32", nonfinite="unspecified"))
    ]
    assert marked[0] is None or not marked[0].any()
    assert marked[1] is not None
    assert np.broadcast_to(marked[1], (3, 2)).all(axis=1).tolist() == [True, False, True]
    attention = {name: np.ones((3, 2), np.float32) for name in ("query", "key", "value")}
    kept = Budget(Inputs(traced("attention"), attention, {"scale": 1.0}), Contract("f32", nonfinite="unspecified"))
    assert kept.output("y", "f32").may is None, "infinities of the formula itself, of its mask, count as numbers"


def _ratios(name: str, output: str, kind: str, joined: bool = True) -> NDArray[Any]:
    """Half-widths over the first-order supremum, of rows of 16."""
    random, found = np.random.default_rng(0), []
    for _ in range(4):
        given = {each: random.normal(size=16) for each in ("x", "dy", "weight", "bias")}
        given["x"] = HARD[kind](given["x"], form("f32"))
        tensors = {each: (row[None] if each in ("x", "dy") else row).astype(np.float32) for each, row in given.items()}
        graph = traced(name)
        budget = Budget(
            Inputs(graph, {each: tensors[each] for each in graph.tensors}, {"eps": EPS}),
            Contract("f32"),
            structured=True,
        )
        kept = budget.forms[graph.outputs[output]]
        found.append((budget.half_width(kept) if joined else kept.spread) / supremum(budget, output))
    return np.concatenate(found, axis=None)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("name", "output", "median", "most"),
    [
        ("rms_norm", "y", 1.001, 1.001), ("softmax", "y", 1.001, 1.001), ("log_softmax", "y", 1.01, 1.05),
        ("layer_norm", "y", 1.01, 1.25), ("layer_norm_backward", "dx", 1.06, 4.0), ("silu_mul", "y", 1.001, 1.001),
        ("softmax_backward", "dx", 1.06, 1.35),
    ],
)  # fmt: skip
def test_it_is_close_to_the_supremum_and_never_less(name: str, output: str, median: float, most: float) -> None:
    """Products with a weight of 1 or a bias of 0 are exact, which the supremum does not know."""
    for kind in ("normal", "mean 1e2", "mean 1e4", "dominant"):
        ratios = _ratios(name, output, kind)
        assert ratios.min() >= 0.9, kind
        assert np.median(ratios) <= median, kind
        assert ratios.max() <= most, kind


def test_with_one_dominant_element_its_error_cancels() -> None:
    assert _ratios("softmax", "y", "dominant").max() < 1.001
    assert _ratios("softmax", "y", "dominant", joined=False).max() > 1.3


def test_where_a_tangent_leaves_the_domain_the_ends_bound_what_can_be() -> None:
    """The variance of a row is known to no better than 1e3 times itself, but it is no less than zero."""
    random = np.random.default_rng(3)
    x = (1e6 + random.normal(size=(2, 64))).astype(np.float32)
    given = {"x": x, "weight": np.ones(64, np.float32), "bias": np.zeros(64, np.float32)}
    inputs = Inputs(traced("layer_norm"), given, {"eps": EPS})
    budget = Budget(inputs, Contract("f32"), True)
    width = budget.half_width(budget.output("rstd", "f32"))
    assert (width <= EPS**-0.5).all()
    assert not simulated("layer_norm", np.float32, 64, 8, Contract("f32"), seed=9).outside


def test_whether_a_difference_of_squares_is_negative_is_not_for_float64_to_say() -> None:
    def root(x: Node) -> Outputs:
        mean = avg(x, "n")
        return {"rstd": rsqrt(avg(x * x, "n") - mean * mean)}

    x = np.repeat(np.random.default_rng(3).normal(size=(40, 1)).astype(np.float32), 7, 1)
    kept = Budget(Inputs(trace(root, {"x": ("...", "n")}), {"x": x}, {}), Contract("f32"), True).output("rstd", "f32")
    assert kept.may is not None
    assert kept.may.all()


def test_infinity_times_a_number_of_either_sign_is_not_certain() -> None:
    graph = trace(lambda x, dy: {"y": total(x, "n") * total(dy, "n")}, {"x": ("n",), "dy": ("n",)})
    x, dy = np.array([3e38, 3e38, 1], np.float32), np.array([1, -1 - 2.0**-23, 2.0**-23], np.float32)
    kept = Budget(Inputs(graph, {"x": x, "dy": dy}, {}), Contract("f32")).output("y", "f32")
    assert kept.may is not None
    assert kept.may.all()


WELFORD = {"mean": "welford", "var": "welford"}


@pytest.mark.some(1)
@pytest.mark.parametrize(("compute", "dtype"), [("f32", "f64"), ("f32", "bf16"), ("f16", "f32")])
def test_a_sum_that_is_rescaled_has_exponentials_in_its_own_dtype_or_that_of_everything_else(
    compute: str, dtype: str
) -> None:
    online = op_traced(SOFTMAX, {"x", "y"}, {"norm": "online"})
    contract = Contract(compute, dtypes={"norm": dtype}, accuracy={"exp": 4.0}, sums={"n": Sequential()})
    found = simulated(online, np.float32, 17, 4, contract, seed=5)
    assert not found.outside, found
    assert found.elements > 1000
    x = np.arange(24, dtype=np.float32)[None] * 0.1  # each term is the largest so far: all that are there are rescaled
    outside = 0
    for seed in range(24 if WHOLE else 2):
        inputs, random = Inputs(online, {"x": x}, {}), np.random.default_rng(seed)
        y = Simulated(inputs, contract, random).output("y", "f32")
        outside += not allowed(Budget(inputs, contract, True), "y", "f32", y, 1.0).all()
    assert not outside


def test_a_sum_that_is_rescaled_has_a_budget_that_kernels_need() -> None:
    online = op_traced(SOFTMAX, {"x", "y"}, {"norm": "online"})
    contract = Contract("f32", sums={"n": Pairwise()})
    found = simulated(online, np.float32, 6, 4, contract, seed=11)
    assert not found.outside, found
    assert simulated(online, np.float32, 3, 6, contract, seed=3, share=0.5).outside
    x = np.linspace(-40, 0, 64, dtype=np.float32)[None] * np.float32(np.pi)
    budgets = [
        Budget(Inputs(op_traced(SOFTMAX, {"x", "y"}, {"norm": name}), {"x": x}, {}), contract, True)
        for name in ("formula", "online")
    ]
    widths = [float(each.half_width(each.output("y", "f32"))[0, -1]) for each in budgets]
    assert widths[0] * 4 < widths[1] < widths[0] * 8, "each addition may rescale what is there"


@pytest.mark.some(1)
@pytest.mark.parametrize("order", [Sequential(), Pairwise()], ids=repr)
def test_means_that_are_kept_up_to_date_have_a_budget_that_kernels_need(order: Summation) -> None:
    graph = op_traced(LAYER_NORM, {"x", "weight", "bias", "y", "mean", "rstd", "eps"}, WELFORD)
    contract = Contract("f32", sums={"n": order}, algorithm={**WELFORD})
    found = simulated(graph, np.float32, 8, 4, contract, seed=11)
    assert not found.outside, found
    assert simulated(graph, np.float32, 5, 8, contract, seed=5, share=0.1).outside
    moments = op_traced(LAYER_NORM, {"x", "y", "eps"}, {"var": "moments"})
    x = (np.random.default_rng(1).normal(size=(4, 256)) + 1e3).astype(np.float32)
    plain = op_traced(LAYER_NORM, {"x", "y", "eps"}, WELFORD)
    kernel = Simulated(Inputs(moments, {"x": x}, {"eps": EPS}), Contract("f32"), np.random.default_rng(1))
    budget = Budget(Inputs(plain, {"x": x}, {"eps": EPS}), Contract("f32", sums={"n": Lanes(8, 4, "predicated")}))
    assert np.mean(allowed(budget, "y", "f32", kernel.output("y", "f32"))) < 0.7, "another algorithm is noticed"


def test_equal_terms_get_the_worst_case_although_nobody_said_that_they_are_structured() -> None:
    """They round alike, and violate what holds of random errors."""
    assert not simulated("rms_norm", np.float32, 3000, 2, Contract("f32"), seed=2).outside
    with mock.patch.object(reductions, "_ALIKE", 0.0):
        assert simulated("rms_norm", np.float32, 3000, 2, Contract("f32"), seed=2).outside


def _layer_norm(wrong: Any) -> float:
    """The share of elements that a wrong kernel has outside, of a layer norm in tiles."""
    random = np.random.default_rng(2)
    n, given = 256, {"bias": np.zeros(256, np.float32), "weight": np.ones(256, np.float32)}
    x = (random.normal(size=(8, n)) + 64).astype(np.float32)
    contract = Contract("f32", sums={"n": Tiles(8)})
    inputs = Inputs(traced("layer_norm"), {"x": x, **given}, {"eps": EPS})
    other = Inputs(traced("moments"), {"x": wrong(x), **given}, {"eps": EPS})
    got = Simulated(other, contract, random).output("y", "f32")
    return 1.0 - float(np.mean(allowed(Budget(inputs, contract), "y", "f32", got)))


def test_another_algorithm_than_declared_and_a_lost_element_are_outside() -> None:
    assert _layer_norm(lambda x: x) > 0.3, "the variance from moments cancels"

    def lost(x: Any) -> Any:
        return np.where(np.arange(x.shape[1]) == 7, np.float32(0), x)

    assert _layer_norm(lost) > 0.9


def test_infinities_follow_from_the_formula() -> None:
    inputs = Inputs(
        traced("rms_norm"),
        {"x": np.array([[3e38, 3e38], [np.inf, 1], [np.nan, 1], [1e19, 1e19]], np.float32),
         "weight": np.ones(2, np.float32)},
        {"eps": EPS},
    )  # fmt: skip
    kept = Budget(inputs, Contract("f32")).output("y", "f32")
    assert kept.centre[0].tolist() == [0.0, 0.0], "the sum overflows for certain"
    np.testing.assert_array_equal(kept.centre[1], [np.nan, 0.0])
    assert np.isnan(kept.centre[2]).all()
    assert np.isfinite(kept.centre[3]).all()
    assert kept.may is None or not kept.may[3].any()


def test_a_product_that_is_not_rounded_before_it_is_added_does_not_overflow() -> None:
    def difference(x: Node, dy: Node) -> Outputs:
        return {"y": x * x - dy * dy, "norm": total(x * x, "n")}

    graph = trace(difference, {"x": ("...", "n"), "dy": ("...", "n")})
    x, dy = np.full((1, 2), 3e19, np.float32), np.array([[2.99e19, 1.0]], np.float32)
    inputs = Inputs(graph, {"x": x, "dy": dy}, {})
    fused, unfused = (Budget(inputs, Contract("f32", fused=each)) for each in (True, False))
    kept = fused.output("y", "f32")
    assert kept.may is not None
    assert kept.may.tolist() == [[True, False]], "9e38 - 8.9e38 is finite in a kernel that rounds once"
    assert np.isinf(kept.centre[0, 1]), "9e38 - 1 is not"
    assert np.isnan(unfused.output("y", "f32").centre[0, 0])
    kept = fused.output("norm", "f32")
    assert np.isinf(kept.centre).all()
    assert kept.may is None or not kept.may.any(), "the sum overflows whether its terms do or not"


def test_the_reciprocal_of_what_may_overflow_may_be_zero_and_nothing_else() -> None:
    edge = np.float32(np.sqrt(np.finfo(np.float32).max / 2))
    x = np.array([[edge, edge], [edge / 2, edge / 2]], np.float32)
    inputs = Inputs(traced("rms_norm"), {"x": x, "weight": np.ones(2, np.float32)}, {"eps": EPS})
    kept = Budget(inputs, Contract("f32")).output("y", "f32")
    assert kept.may is None or not kept.may.any()
    assert kept.edge is not None
    assert [row.any() for row in np.broadcast_to(kept.edge.zero, (2, 2))] == [True, False]


def test_where_kernels_disagree_about_a_mask_either_choice_is_right() -> None:
    def clipped(x: Node) -> Outputs:
        mean = total(x, "n") / 3.0
        return {"y": where(mean <= x, mean, -x)}

    x = np.array([0.1, 0.3, 0.2], np.float32)  # the mean of them is 0.2 in float32, or next to it
    budget = Budget(Inputs(trace(clipped, {"x": ("n",)}), {"x": x}, {}), Contract("f32"))
    width = budget.half_width(budget.output("y", "f32"))
    assert (width[:2] < 1e-6).all()
    assert 0.4 < width[2] < 0.4001
    wide = np.array([0.1, 0.3, 0.21], np.float32)
    budget = Budget(Inputs(trace(clipped, {"x": ("n",)}), {"x": wide}, {}), Contract("f32"))
    assert (budget.half_width(budget.output("y", "f32")) < 1e-6).all()


def test_contracts_that_contradict_themselves_are_refused() -> None:
    for wrong, words in (
        ({"compute": "e4m3fn"}, "storage format"),
        ({"accuracy": {"gamma": 1.0}}, "'gamma' is no function"),
        ({"accuracy": {"exp": 0.2}}, "at least 0.5"),
    ):
        with pytest.raises(NumericsError, match=words):
            Contract(**wrong)
    with pytest.raises(NumericsError, match="denormals: 'lost' is not one of 'preserve', 'flush', 'flush operands'"):
        Contract("f32", denormals="lost")  # type: ignore[arg-type]
    assert len({Contract("f32", sums={"n": Tiles(4)}), Contract("f32", sums={"n": Tiles(4)}), Contract("f32")}) == 2


def test_a_contract_is_settled_for_the_input_and_for_the_hardware() -> None:
    contract = Contract("input", dtypes={"rstd": "f32", "h": "input"}, points={"p": "input"})
    assert contract.settled({"x": "f16"}) == Contract("f16", dtypes={"rstd": "f32", "h": "f16"}, points={"p": "f16"})
    assert contract.settled({"x": "f16"}) is contract.settled({"x": "f16"})
    with pytest.raises(NumericsError, match="compute: e4m3fn is a storage format"):
        contract.settled({"x": "e4m3fn"})
    flushing = Contract("f32", denormals="flush bf16")
    assert [flushing.settled({"x": "f32", "y": each}).denormals for each in ("f16", "bf16")] == ["preserve", "flush"]
    scalable = Contract("f32", sums={"n": VectorLanes(2, "predicated"), "var": Tiles(4)})
    assert scalable.at(512) == Contract("f32", sums={"n": Lanes(16, 2, "predicated"), "var": Tiles(4)})
    assert scalable.at(None) is scalable
    assert [*Contract("f32").algorithms] == [{}]
    several = Contract("f32", algorithm={"var": ("formula", "moments"), "dx": "affine"})
    assert [*several.algorithms] == [{"var": "formula", "dx": "affine"}, {"var": "moments", "dx": "affine"}]
    assert {several: 1}[Contract("f32", algorithm={"dx": "affine", "var": ("formula", "moments")})] == 1
