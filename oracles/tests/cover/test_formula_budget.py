"""Budgets from formulas: as wide as those written by hand, never too narrow for a correct kernel, narrow enough."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from oracles.formula import reductions
from oracles.formula.budget import Budget
from oracles.formula.centre import Inputs
from oracles.formula.contract import Contract
from oracles.formula.simulation import Simulated
from oracles.formula.trace import Node, Outputs, total, trace, where
from oracles.numerics import Numerics
from oracles.problem import Problem
from oracles.summation import NumericsError, Tiles
from oracles.tests.common.formulas import EPS, FORMULAS, traced
from oracles.tests.common.simulated import allowed, of_shape, simulated
from oracles.truth import Truth

F16 = Contract("f16")


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("n", [4, 64, 1000])
@pytest.mark.parametrize(("dtype", "least"), [(np.float32, 1.0), (np.float16, 0.9)])
def test_it_is_as_wide_as_the_budget_of_rms_norm_written_by_hand(
    dtype: type[Any], least: float, n: int, structured: bool
) -> None:
    """Products of 16-bit numbers are exact in f32, of which the one by hand makes no use."""
    random = np.random.default_rng(n)
    tensors = {"x": random.normal(size=(3, n)).astype(dtype), "weight": random.normal(size=n).astype(dtype)}
    outputs = {"y": "f32" if dtype is np.float32 else "f16", "rstd": "f32"}
    by_hand = Truth(Problem("rms_norm", {"eps": EPS}, tensors, outputs, structured)).enclosures(Numerics(), structured)
    budget = Budget(Inputs(traced("rms_norm"), tensors, {"eps": EPS}), Contract(), structured)
    for name, dtype_name in outputs.items():
        width = of_shape(budget, name, budget.half_width(budget.output(name, dtype_name)))
        ratio = width / np.maximum(by_hand[name].below, by_hand[name].above)
        # A chain of one rounding more or less is what statistics may differ in.
        assert least * 0.99 <= ratio.min() <= ratio.max() <= (1.0001 if structured else 1.08), (
            name,
            ratio,
        )


@pytest.mark.parametrize("name", FORMULAS)
def test_no_correct_kernel_is_outside(name: str) -> None:
    for dtype, contract, structured in ((np.float32, Contract(), False), (np.float16, Contract(), True)):
        found = simulated(name, dtype, 33, 6, contract, seed=3, structured=structured)
        assert not found.outside, found
        assert found.elements > 1000
    found = simulated(name, np.float16, 9, 6, F16, seed=4)
    assert not found.outside, found


@pytest.mark.parametrize(
    "contract",
    [
        Contract(sums={"n": Tiles(8), "k": Tiles(8), "j": Tiles(8), "d": Tiles(4), "...": Tiles(2)}),
        Contract(accuracy={"rsqrt": 4.0, "exp": 8.0, "divide": 2.5}, mean="reciprocal"),
        Contract(denormals="flush"),
        Contract(dtypes={"rstd": "f16", "var": "f16", "mean": "f16"}),
        Contract(points={"p": "f16"}, fused=False),
    ],
    ids=["tiles", "functions", "flush", "dtypes", "points"],
)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "layer_norm_backward", "softmax_backward", "attention"])
def test_nor_under_other_contracts(name: str, contract: Contract) -> None:
    found = simulated(name, np.float32, 17, 4, contract, seed=8)
    assert not found.outside, found


@pytest.mark.parametrize(
    ("name", "share"), [("rms_norm", 0.3), ("softmax", 0.5), ("gelu_tanh", 0.5), ("silu_mul", 0.5), ("rotary", 0.5)]
)
def test_with_a_part_of_it_correct_kernels_are_outside(name: str, share: float) -> None:
    """A budget that no kernel comes near would find nothing."""
    assert simulated(name, np.float32, 2, 60, Contract(), seed=5, share=share).outside


def test_equal_terms_get_the_worst_case_although_nobody_said_that_they_are_structured() -> None:
    """They round alike, and violate what holds of random errors."""
    assert not simulated("rms_norm", np.float32, 3000, 2, Contract(), seed=2).outside
    with mock.patch.object(reductions, "_ALIKE", 0.0):
        assert simulated("rms_norm", np.float32, 3000, 2, Contract(), seed=2).outside


def _layer_norm(wrong: Any) -> float:
    """The share of elements that a wrong kernel has outside, of a layer norm in tiles."""
    random = np.random.default_rng(2)
    n, given = 256, {"bias": np.zeros(256, np.float32), "weight": np.ones(256, np.float32)}
    x = (random.normal(size=(8, n)) + 64).astype(np.float32)
    contract = Contract(sums={"n": Tiles(8)})
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
    kept = Budget(inputs, Contract()).output("y", "f32")
    assert kept.centre[0].tolist() == [0.0, 0.0], "the sum overflows for certain"
    np.testing.assert_array_equal(kept.centre[1], [np.nan, 0.0])
    assert np.isnan(kept.centre[2]).all()
    assert np.isfinite(kept.centre[3]).all()
    assert kept.may is None or not kept.may[3].any()


def test_what_may_overflow_is_marked_and_nothing_else() -> None:
    edge = np.float32(np.sqrt(np.finfo(np.float32).max / 2))
    x = np.array([[edge, edge], [edge / 2, edge / 2]], np.float32)
    inputs = Inputs(traced("rms_norm"), {"x": x, "weight": np.ones(2, np.float32)}, {"eps": EPS})
    kept = Budget(inputs, Contract()).output("y", "f32")
    assert kept.may is not None
    assert [row.any() for row in np.broadcast_to(kept.may, (2, 2))] == [True, False]


def test_where_kernels_disagree_about_a_mask_either_choice_is_right() -> None:
    def clipped(x: Node) -> Outputs:
        mean = total(x, "n") / 3.0
        return {"y": where(mean <= x, mean, -x)}

    x = np.array([0.1, 0.3, 0.2], np.float32)  # the mean of them is 0.2 in float32, or next to it
    budget = Budget(Inputs(trace(clipped, {"x": ("n",)}), {"x": x}, {}), Contract())
    width = budget.half_width(budget.output("y", "f32"))
    assert (width[:2] < 1e-6).all()
    assert 0.4 < width[2] < 0.4001
    wide = np.array([0.1, 0.3, 0.21], np.float32)
    budget = Budget(Inputs(trace(clipped, {"x": ("n",)}), {"x": wide}, {}), Contract())
    assert (budget.half_width(budget.output("y", "f32")) < 1e-6).all()


def test_contracts_that_contradict_themselves_are_refused() -> None:
    for wrong, words in (
        ({"compute": "e4m3"}, "storage format"),
        ({"accuracy": {"expm1": 1.0}}, "'expm1' is no function"),
        ({"accuracy": {"exp": 0.2}}, "at least 0.5"),
    ):
        with pytest.raises(NumericsError, match=words):
            Contract(**wrong)
    assert len({Contract(sums={"n": Tiles(4)}), Contract(sums={"n": Tiles(4)}), Contract()}) == 2
