"""The cast to an output's dtype flushes as other operations do: what it is given, what is subnormal in that dtype."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.dtypes import form
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.simulation import simulate
from oracles.tests.common.dims import TURN
from oracles.tests.common.integers import GATHERED
from oracles.tests.common.judged import known
from oracles.truth import Truth


@pytest.mark.parametrize(("denormals", "result"), [("flush results", "pass"), ("preserve", "numeric")])
def test_what_is_flushed_by_the_cast_to_an_output(denormals: str, result: str) -> None:
    contract = Contract("f64", denormals=denormals)  # type: ignore[arg-type]
    x, weight = np.ones((1, 4), np.float32), np.ones(4, np.float32)
    inputs = {"x": x, "dy": np.full((1, 4), 1e-40, np.float32), "weight": weight}
    of = Problem("layer_norm_backward", {"eps": 1e-5}, inputs, dict.fromkeys(("dx", "dw", "db"), "f32"))
    got = simulate(of, Contract("f64"), np.random.default_rng(0))
    db = Truth(of).check(contract, {**got, "db": np.zeros_like(got["db"])})[2]
    assert (db.output, db.result) == ("db", result)


@pytest.mark.parametrize(
    ("dtype", "denormals", "result"),
    [("f64", "flush operands", "pass"), ("f64", "preserve", "numeric"), ("f32", "flush operands", "numeric")],
)
def test_a_cast_to_another_dtype_may_take_what_is_subnormal_for_zero(dtype: str, denormals: str, result: str) -> None:
    """An operation takes y for zero, as processors convert it, where something is left to be converted."""
    contract = Contract(denormals=denormals)  # type: ignore[arg-type]
    x = np.full((1, 4), 2e-38, np.float32)
    of = Problem("rms_norm", {"eps": 4.0}, {"x": x}, {"y": dtype}, True)
    (y,) = Truth(of).check(contract, {"y": np.zeros((1, 4), STORAGE[dtype])})
    assert y.result == result


@pytest.mark.parametrize(
    ("contract", "result"),
    [
        (Contract("f64", denormals="flush results"), "pass"),
        (Contract("f32", denormals="flush results"), "numeric"),
        (Contract("f64", denormals="preserve"), "numeric"),
        (Contract("f64", denormals="flush operands"), "pass"),
    ],
)
def test_what_is_moved_in_a_wider_dtype_may_be_flushed_on_its_way_back(contract: Contract, result: str) -> None:
    """The conversion to float returns a subnormal number, also of a value that both dtypes hold."""
    table = np.full((1, 3), 2.0**-128).astype(STORAGE["bf16"])
    with known(GATHERED):
        of = Problem("gathered", {}, {"table": table, "place": np.zeros(2, np.int32)}, {"y": "bf16"}, True)
        (y,) = Truth(of).check(contract, {"y": np.zeros((2, 3), table.dtype)})
        assert y.result == result
        (y,) = Truth(of).check(contract, {"y": np.broadcast_to(table, (2, 3))})
        assert y.result == "pass"
        for seed in range(8):
            assert Truth(of).check(contract, simulate(of, contract, np.random.default_rng(seed)))[0].result == "pass"


@pytest.mark.parametrize(("dtypes", "result"), [({"second": "f64"}, "pass"), ({}, "numeric")])
def test_a_local_of_a_wider_dtype_may_be_flushed_where_an_operation_takes_it(
    dtypes: dict[str, str], result: str
) -> None:
    contract = Contract(dtypes=dtypes, denormals="flush results")
    x = np.array([0.0, 2.0**-128], np.float32).reshape(1, 1, 2, 1)
    with known(TURN):
        inputs = {"x": x, "cos": np.full((1, 1), 2.0**127, np.float32), "sin": np.zeros((1, 1), np.float32)}
        of = Problem("turn", {}, inputs, {"y": "f32"}, True)
        (y,) = Truth(of).check(contract, {"y": np.zeros_like(x)})
        assert y.result == result


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_what_may_be_flushed_anywhere_is_no_further_than_zero(dtype: str) -> None:
    """On its way it may be flushed three times over, of which each alone is zero already."""
    tiny = form(dtype).tiny
    x = (np.array([[0.25, -0.5, 0.75, 0.125]]) * tiny).astype(STORAGE[dtype])
    of = Problem("rms_norm", {"eps": 1.0}, {"x": x, "weight": np.full(4, 8, x.dtype)}, {"y": dtype}, True)
    found = Truth(of).enclosures(Contract(denormals="flush"), True)["y"]
    size = 8 * np.abs(x.astype(np.float64))
    assert (found.below <= size * 1.01).all()
    assert ((found.outer[0] <= 0) & (found.outer[1] >= 0)).all()


def test_what_double_double_loses_is_decided_by_float64_where_kernels_err_by_more() -> None:
    """A row of numbers that double-double does not hold to their last bit, in an op that mixes f32 and f64."""
    contract = Contract(dtypes={"y": "weight"}, points={"mean_square": "bf16", "h": "bf16"}, denormals="flush")
    random = np.random.default_rng(0)
    x = (random.standard_normal((2, 64)) * 2.0 ** random.integers(-1040, -60, (2, 64))).astype(np.float64)
    of = Problem("rms_norm", {"eps": 1e-2}, {"x": x, "weight": random.standard_normal(64)}, {"y": "f64"}, True)
    got = simulate(of, contract, random)
    (y,) = Truth(of).check(contract, got)
    assert y.result == "pass"
    assert y.escalated < 8
    (wrong,) = Truth(of).check(contract, {"y": got["y"] + 1e-30})
    assert wrong.result == "numeric"
    enclosure = Truth(of).enclosures(contract, True)["y"]
    for at in range(64):
        bounds = Truth(of).bounds(contract, "y", (0, at), True)
        assert bounds is not None
        assert enclosure.outer[0][0, at] <= bounds.ends[0] <= enclosure.inner[0][0, at]
        assert enclosure.inner[1][0, at] <= bounds.ends[1] <= enclosure.outer[1][0, at]


@pytest.mark.parametrize(("fused", "result"), [(True, "pass"), (False, "numeric")])
def test_a_product_that_is_formed_anew_in_a_difference_may_take_another_operand(fused: bool, result: str) -> None:
    """g - mean(g) in a row of one element: where g was formed dy is zero, and in the difference it is a number."""
    contract = Contract(denormals="flush operands", fused=fused)
    x, dy, weight = np.ones((2, 1), np.float32), np.full((2, 1), 3.8e-39, np.float32), np.array([498], np.float32)
    inputs = {"x": x, "dy": dy, "weight": weight, "rstd": np.full(2, 0.25, np.float32)}
    of = Problem("layer_norm_backward", {"eps": 10.0}, inputs, {"dx": "f32"}, True)
    (dx,) = Truth(of).check(contract, {"dx": dy * weight * np.float32(0.25)})
    assert dx.result == result
    Truth(of).explain(contract, "dx", (0, 0), 0.0)


@pytest.mark.parametrize(("fused", "result"), [(True, "pass"), (False, "numeric")])
def test_a_product_that_is_formed_anew_in_a_sum_may_take_another_operand(fused: bool, result: str) -> None:
    """g - mean(g) - h mean(g h), of h = -1 and 1: g[1] does not matter to dx[0], unless one sum has it as zero."""
    contract = Contract(denormals="flush operands", fused=fused)
    x, weight = np.array([[-1, 1]], np.float32), np.array([1, 498], np.float32)
    dy = np.full((1, 2), 3.8e-39, np.float32)
    inputs = {"x": x, "dy": dy, "weight": weight, "mean": np.zeros(1, np.float32), "rstd": np.ones(1, np.float32)}
    of = Problem("layer_norm_backward", {"eps": 10.0}, inputs, {"dx": "f32"}, True)
    g = dy * weight
    got = g - np.float32(g[0, 0] / 2) - x * (x * g).mean()
    (dx,) = Truth(of).check(contract, {"dx": got})
    assert dx.result == result
    Truth(of).explain(contract, "dx", (0, 0), 0.0)


@pytest.mark.parametrize(("fused", "result"), [(True, "pass"), (False, "numeric")])
def test_an_operand_that_a_cast_makes_subnormal_may_be_zero_where_its_product_is_formed_anew(
    fused: bool, result: str
) -> None:
    """g - mean(g) of one element: dy is zero in the difference, and a number in the sum."""
    contract = Contract(compute="f16", denormals="flush operands", fused=fused)
    dy, zero, one = np.full((1, 1), -5.9465e-05, np.float32), np.zeros(1, np.float16), np.ones(1, np.float16)
    weight = np.array([15.8125], np.float16)
    of = Problem(
        "layer_norm_backward", {"eps": 1.0}, {"x": zero[None], "dy": dy, "weight": weight, "mean": zero, "rstd": one},
        {"dx": "f32"}, True,
    )  # fmt: skip
    (dx,) = Truth(of).check(contract, {"dx": np.full((1, 1), 5.9605e-05 * 15.8125, np.float32)})
    assert dx.result == result


def test_what_a_difference_leaves_subnormal_may_be_zero_though_float64_has_less_of_it() -> None:
    """dy - exp(y) dy of one element: float64 errs by 2^-53 of dy, and the cast flushes all there is."""
    contract = Contract(compute="f16", accuracy={"exp": 2.0}, denormals="flush operands", fused=True)
    dy = np.linspace(2.0**-10, 2.0**-9, 256, dtype=np.float32)[:, None]
    y = np.linspace(0.002, 0.004, 256, dtype=np.float16)[:, None]
    of = Problem("log_softmax_backward", {}, {"y": y, "dy": dy}, {"dx": "f32"}, True)
    (dx,) = Truth(of).check(contract, {"dx": np.full((256, 1), -0.0, np.float32)})
    assert dx.result == "pass"


@pytest.mark.parametrize(
    ("denormals", "x", "got", "result"),
    [
        ("flush operands", [-3e-45, 3e-45, 3e-45], -3e-45, "pass"),
        ("flush operands", [-3e-45, 3e-45, 3e-45], -2e-44, "numeric"),
        ("flush results", [-3e-45, 3e-45, 3e-45], -3e-45, "numeric"),
        ("preserve", [-3e-45, 3e-45, 3e-45], -3e-45, "numeric"),
        ("flush operands", [-3e-45, 3e-45, 1.0], 3e-45, "numeric"),
        ("flush operands", [-2e-38, 3e-45, 3e-45], -2e-38, "numeric"),
    ],
)
def test_a_comparison_may_take_subnormal_numbers_for_equal(
    denormals: str, x: list[float], got: float, result: str
) -> None:
    """What is chosen by it is returned as it is, and not as it was compared."""
    of = Problem("row_max", {}, {"x": np.array([x], np.float32)}, {"y": "f32"}, True)
    (y,) = Truth(of).check(Contract("f32", denormals=denormals), {"y": np.array([got], np.float32)})  # type: ignore[arg-type]
    assert y.result == result
