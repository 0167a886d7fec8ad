"""A sum, a mean or a maximum over several dimensions is judged as one over all their places in a row."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from oracles.doubledouble import head
from oracles.formula.contract import Contract
from oracles.formula.trace import (
    Along,
    FormulaError,
    Node,
    Outputs,
    avg,
    dot,
    exp,
    extent,
    greatest,
    online_total,
    point,
    rsqrt,
    take,
    total,
    trace,
    welford_mean,
    welford_squares,
)
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.summation import Lanes, Sequential, Summation, Tiles
from oracles.tests.common.contractions import at_once
from oracles.tests.common.dims import problem, unsound
from oracles.tests.common.gradients import gradient
from oracles.tests.common.judged import known
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth, settle

CS = ("c", "s")


def normed(x: Node, w: Node, over: Along) -> Outputs:
    mean = avg(x, over)
    away = x - mean
    rstd = rsqrt(total(away * away, over) / extent(over) + 1e-5)
    return {"y": away * rstd * w}


def updated(x: Node, w: Node, over: Along) -> Outputs:
    mean = welford_mean(x, over)
    return {"y": (x - mean) * rsqrt(welford_squares(x, over) / extent(over) + 1e-5) * w}


def softened(x: Node, w: Node, over: Along) -> Outputs:
    e = exp(x * w - greatest(x * w, over))
    p = e / total(e, over)
    return {"y": point(p)}


def online(x: Node, w: Node, over: Along) -> Outputs:
    return {"y": exp(x - greatest(x, over)) / online_total(x, over) * w}


def weighted(x: Node, w: Node, over: Along) -> Outputs:
    e = exp(x)
    return {"y": e * w / dot(e, w, over)}


FORMULAS: Mapping[str, Callable[[Node, Node, Along], Outputs]] = {
    each.__name__: each for each in (normed, updated, softened, online, weighted)
}


def of_dims(name: str, dims: str) -> Op:
    """The op of a formula over these dimensions, which its name says too."""

    def formula(x: Node, w: Node) -> Outputs:
        return FORMULAS[name](x, w, tuple(dims.split()))

    formula.__name__ = f"{name}_{dims.replace(' ', '_')}"
    return Op(formula, (Operand("x", f"b {dims}"), Operand("w", dims)), (Operand("y", f"b {dims}"),))


def grouped(x: Node, w: Node, v: Node) -> Outputs:
    """Errors that some of the terms share, and a factor that lacks a dimension."""
    away = x - avg(x, "s")
    return {"y": total(away * v, CS), "z": dot(away, w, ("s", "c")), "most": greatest(away * w, CS)}


def conv(x: Node, taps: Node, w: Node) -> Outputs:
    """y = sum over c and k of w x, at the places that the taps say."""
    return {"y": dot(take(x, taps, "t"), w, ("c", "k"))}


GROUPED = Op(
    grouped,
    inputs=(Operand("x", "b c s"), Operand("w", "c"), Operand("v", "c s")),
    outputs=(Operand("y", "b"), Operand("z", "b"), Operand("most", "b")),
)
CONV = Op(
    conv,
    inputs=(Operand("x", "b c t"), Operand("taps", "p k", index="t", dtype="int32"), Operand("w", "o c k")),
    outputs=(Operand("y", "b o p"),),
)
ALL = (GROUPED, CONV, *(of_dims(name, dims) for name in FORMULAS for dims in ("c s", "n")))
ORDERS: Mapping[str, Summation] = {"one": Sequential(), "lanes": Lanes(4, 2, "scalar"), "tiles": Tiles(16)}


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


def test_a_mean_that_is_kept_up_to_date_of_nothing_is_nan() -> None:
    """As that of the formula is: no place has a value of its own to judge, but what is stored of each row has."""

    def kept(x: Node) -> Outputs:
        return {"mean": welford_mean(x, CS), "squares": welford_squares(x, CS)}

    op = Op(kept, (Operand("x", "b c s"),), (Operand("mean", "b"), Operand("squares", "b")))
    with known(op):
        of = problem(op, {"b": 2, "c": 3, "s": 0}, (), "f32", 1)
        got = {"mean": np.full(2, np.nan, np.float32), "squares": np.zeros(2, np.float32)}
        assert [each.failing for each in Truth(of).check(Contract(), got)] == [0, 0]
        got = {"mean": np.zeros(2, np.float32), "squares": np.ones(2, np.float32)}
        assert [each.failing for each in Truth(of).check(Contract(), got)] == [2, 2]


@pytest.mark.parametrize("order", ORDERS)
def test_a_sum_of_several_dimensions_without_any_row_is_judged_beside_one_that_has_terms(order: str) -> None:
    def beside(x: Node, w: Node) -> Outputs:
        return {"y": total(x * w, CS), "z": total(w, CS)}

    op = Op(beside, (Operand("x", "b c s"), Operand("w", "c s")), (Operand("y", "b"), Operand("z", "")))
    with known(op):
        of = problem(op, {"b": 0, "c": 3, "s": 64}, (), "f32", 1)
        contract = Contract(sums=dict.fromkeys(op.named, ORDERS[order]))
        got = {"y": np.zeros(0, np.float32), "z": np.sum(of.inputs["w"])}
        assert [each.failing for each in Truth(of).check(contract, got)] == [0, 0]
        assert [each.failing for each in Truth(of).check(contract, {**got, "z": got["z"] + 1})] == [0, 1]


@pytest.mark.some(7)
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_allowed_is_that_of_one_dimension_of_as_many_places(name: str, order: str) -> None:
    """The one has the data of the other, reshaped: centres and half-widths are the same but for orders of addition."""
    for number, dtype in enumerate(("f32", "bf16", "f64")):
        of = problem(of_dims(name, "c s"), {"b": 3, "c": 5, "s": 13}, (), dtype, number, spread=4 * (number % 2))
        flat = {each: array.reshape(*array.shape[:-2], -1) for each, array in of.inputs.items()}
        one = replace(of, op=f"{name}_n", inputs=flat, params={"axis": 1})
        wide = "f64" if dtype == "f64" else "f32"
        contracts = (Contract(wide, sums={over: ORDERS[order]}) for over in ("s c", "n"))
        found, expected = (
            Truth(each).enclosures(contract, False)["y"] for each, contract in zip((of, one), contracts, strict=True)
        )
        assert np.allclose(found.below.reshape(3, -1), expected.below, rtol=2.0**-30, atol=0, equal_nan=True)
        assert np.allclose(head(found.centre).reshape(3, -1), head(expected.centre), rtol=2.0**-40, atol=2.0**-60)


def test_an_order_of_both_dimensions_is_found_by_their_names_in_any_order() -> None:
    lanes = Contract(sums={"s c": Lanes(8, 1, "scalar")})
    assert lanes.order("y", "c s") == lanes.order("", "s c") == Lanes(8, 1, "scalar")
    assert lanes.order("y", "c") == Sequential()
    assert Contract(sums={"y": Tiles(4), "c s": Tiles(8)}).order("y", "c s") == Tiles(4)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "op", [each for each in ALL if "n" not in each.named and each is not CONV], ids=lambda o: o.name
)
def test_correct_kernels_pass(op: Op) -> None:
    """Sums of their terms in any order, some of them with products that are not rounded."""
    assert unsound(op, range(3)) == []


def of_conv(dtype: str, b: int, c: int, t: int, k: int, o: int, seed: int = 0) -> Problem:
    random = np.random.default_rng(seed)
    x, w = (random.normal(size=shape).astype(dtype) for shape in ((b, c, t), (o, c, k)))
    taps = np.arange(t - k + 1)[:, None] + np.arange(k)
    names = {"float32": "f32", "float64": "f64"}
    return Problem("conv", {"axis": 2}, {"x": x, "taps": taps.astype(np.int32), "w": w}, {"y": names[dtype]})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_tiers_say_the_same(dtype: str) -> None:
    contract = Contract("f64" if dtype == "float64" else "f32")
    with at_once(8):
        for of in (of_conv(dtype, 2, 2, 4, 2, 2), problem(GROUPED, {"b": 2, "c": 2, "s": 3}, (), contract.compute, 1)):
            compared, _, wrong = disagreements(of, contract, np.random.default_rng(0))
            assert compared
            assert not wrong


@pytest.mark.parametrize("special", [False, True])
def test_a_convolution_needs_no_array_of_all_products(special: bool) -> None:
    """An array of all products would be of 10 MB."""
    of = of_conv("float32", 2, 64, 34, 5, 64)
    if special:
        of.inputs["x"][1, 3, 10:20] = np.inf
    x, taps, w = (of.inputs[name].astype(np.float64) for name in ("x", "taps", "w"))
    with np.errstate(invalid="ignore"):
        right = np.einsum("bcpk,ock->bop", x[:, :, taps.astype(int)], w).astype(np.float32)
    truth, contract = Truth(of), Contract()
    y = np.where(np.isfinite(right), right * np.float32(1 + 2.0**-20), right)
    tracemalloc.start()
    try:
        [[found]] = settle([(truth, [(contract, truth.receive({"y": y}))])])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    products = 2 * 64 * 30 * 64 * 5 * 8
    assert getattr(found, "result", found) == "pass"
    assert most < products / 2
    y[1, 7, 29] += 0.01
    assert [each.result for each in truth.check(contract, {"y": y})] == ["numeric"]


def test_a_gradient_sums_over_all_that_an_argument_lacks_at_once() -> None:
    found = gradient(
        trace(lambda x, w: {"y": dot(x, w, CS)}, {"x": ("b", "c", "s"), "w": ("m", "c", "s")}), "y", ["x", "w"]
    )
    assert (found.outputs["dw"].kind, found.outputs["dw"].over) == ("dot", ("b",))
    product = trace(lambda x, w: {"y": dot(x, w, "k")}, {"x": ("b", "s", "k"), "w": ("k", "n")})
    dw = gradient(product, "y", ["w"]).outputs["dw"]
    assert (dw.kind, dw.over) == ("dot", ("b", "s"))
    for name in FORMULAS:
        plain = trace(lambda x, w, name=name: FORMULAS[name](x, w, CS), {"x": ("b", *CS), "w": CS})
        assert gradient(plain, "y", ["x", "w"]).outputs["dx"].dims == {"b", *CS}


@pytest.mark.parametrize("over", [(), ("c", "c"), ("c", "z"), "c z", ""])
def test_dimensions_that_cannot_be_reduced_together_are_refused(over: Along) -> None:
    with pytest.raises(FormulaError, match="over"):
        trace(lambda x: {"y": total(x, over)}, {"x": ("b", *CS)})
