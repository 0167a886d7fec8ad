"""Places that follow from several dimensions: windows, steps, pads, parts, turns, and dimensions that no tensor has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.check import check
from oracles.doubledouble import DoubleDouble
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Double, Float64, Precise
from oracles.formula.exact.centre import Exact, Inputs, evaluate
from oracles.formula.exact.extended import Extended
from oracles.formula.made import completed, short
from oracles.formula.trace import FormulaError, Node, Outputs, Trace, extent, floor, position, take, total, trace, where
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.problem import Problem
from oracles.tests.common.dims import problem, unsound
from oracles.tests.common.gradients import gradient
from oracles.tests.common.judged import known
from oracles.tests.common.maps import ALL, APART, MOVED, POOLED, SAME, STRIDED, by_loops
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


SIZES = {"b": 2, "c": 3, "n": 8, "m": 2, "k": 3}


def _graph(op: Op) -> Trace:
    return trace(op.formula, {each.name: each.axes for each in op.inputs})


def _problem(op: Op, dtype: str = "f32", seed: int = 0, **sizes: int) -> Problem:
    return problem(op, {**SIZES, **op.fixed, **sizes}, (), dtype, seed)


def _plain(values: Any, wanted: NDArray[Any]) -> NDArray[Any]:
    """Values of any arithmetic, without axes of one element that the output has not."""
    if isinstance(values, DoubleDouble):
        values = values.high
    values = getattr(values, "doubled", values)
    values = values.high if isinstance(values, DoubleDouble) else values
    return np.asarray(values.astype(np.float64).reshape(wanted.shape))


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_the_value_is_that_of_loops_in_every_arithmetic(op: Op) -> None:
    check(op)
    for n, k in ((8, 3), (6, 1), (2, 3)):
        of, graph = _problem(op, "f64", n=n, **({} if op.fixed else {"k": k})), _graph(op)
        inputs = Inputs(graph, of.inputs, {})
        right = by_loops(op.name, of.inputs)
        for arithmetic in (Float64(), Precise(), Double(), Extended()):
            found = evaluate(inputs, arithmetic)
            for name, wanted in right.items():
                assert np.allclose(_plain(found[graph.outputs[name]], wanted), wanted, rtol=1e-12, atol=1e-12), name
        exact = Exact(inputs)
        for name, wanted in right.items():
            dims = op.operand(name).axes
            for index in ((0,) * len(dims), tuple(size - 1 for size in wanted.shape)):
                one = exact.element(graph.outputs[name], dict(zip(dims, index, strict=True)))
                assert abs(float(one) - wanted[index]) <= 1e-12 * max(1.0, abs(wanted[index]))


@pytest.mark.some(2)
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op) -> None:
    """Simulated ones, in any order, of each contract."""
    assert unsound(op, range(4)) == []


@pytest.mark.parametrize("op", [STRIDED, SAME, POOLED], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_both_tiers_say_the_same(op: Op, dtype: str) -> None:
    compared, _, wrong = disagreements(_problem(op, dtype, n=4), Contract(dtype), np.random.default_rng(0))
    assert compared
    assert not wrong


def test_what_is_only_moved_is_exact() -> None:
    """One bit less fails, and so does a zero for the least value outside."""
    of = _problem(MOVED)
    right = {name: each.astype(np.float32) for name, each in by_loops("moved", of.inputs).items()}
    for wrong in (None, "y", "twice"):
        outputs = dict(right)
        if wrong is not None:
            outputs[wrong] = np.nextafter(right[wrong], 9, dtype=np.float32)
        results = {each.output: each.result for each in Truth(of).check(Contract(), outputs)}
        assert results == {name: "numeric" if name == wrong else "pass" for name in right}
    of = _problem(POOLED)
    of.inputs["x"][:] = -np.abs(of.inputs["x"])
    right = {name: each.astype(np.float32) for name, each in by_loops("pooled", of.inputs).items()}
    assert {each.result for each in Truth(of).check(Contract(), right)} == {"pass"}
    right["most"][..., 0] = 0.0
    assert [each.result for each in Truth(of).check(Contract(), right)] == ["numeric", "pass"]


@pytest.mark.parametrize("op", [STRIDED, APART], ids=lambda op: op.name)
def test_a_kernel_that_is_off_by_one_place_fails(op: Op) -> None:
    of = _problem(op)
    right = by_loops(op.name, of.inputs)["y"].astype(np.float32)
    assert [each.result for each in Truth(of).check(Contract(), {"y": right})] == ["pass"]
    assert [each.result for each in Truth(of).check(Contract(), {"y": np.roll(right, 1, -1)})] == ["numeric"]


@pytest.mark.parametrize(("op", "of"), [(STRIDED, "y"), (APART, "y"), (SAME, "y"), (POOLED, "mean"), (MOVED, "y")],
                         ids=lambda each: getattr(each, "name", each))  # fmt: skip
def test_the_gradient_follows(op: Op, of: str) -> None:
    """It is compared with differences where it is made."""
    graph = _graph(op)
    by = [each.name for each in op.inputs]
    found = gradient(graph, of, by)
    assert {*found.outputs} == {f"d{name}" for name in by}


def test_extents_follow_from_those_of_inputs() -> None:
    assert STRIDED.named == ("b", "c", "n", "m", "k")
    assert STRIDED.whole({"n": 8, "k": 3}) == {"n": 8, "k": 3, "o": 4}
    assert STRIDED.shape("y", (2, 3, 8), 2, {"m": 5, "k": 3}) == (2, 5, 4)
    assert STRIDED.whole({"n": 1, "k": 9}) is None
    assert short(STRIDED.made, {"n": 1, "k": 9}) == {"n"}
    assert short(MOVED.made, {"n": 7}) == {"n"}
    assert MOVED.whole({"n": 7}) is None
    assert completed(STRIDED.made, {"n": 1, "k": 9}, least=1)["o"] == 1
    assert STRIDED.work({"b": 1, "c": 2, "n": 8, "m": 3, "k": 3}) == 2 * 3 * 3 * 4


def _of(formula: Any, dims: str = "b n", out: str = "b o") -> Op:
    return Op(formula, (Operand("x", dims),), (Operand("y", out),))


def test_what_makes_no_dimension_is_refused() -> None:
    def twice(x: Node) -> Outputs:
        return {"y": take(x, position("o", 3.0), "n") + take(x, position("o", 4.0), "n")}

    def unknown(x: Node) -> Outputs:
        return {"y": x}

    with pytest.raises(FormulaError, match="it has 3 places, and 4"):
        trace(twice, {"x": ("b", "n")})
    with pytest.raises(OpError, match="how long 'o' is, nor does the formula make it"):
        _of(unknown)


def test_a_place_outside_is_no_element_unless_it_is_said_what_is_there() -> None:
    graph = trace(lambda x: {"y": take(x, position("n") - 1.0, "n")}, {"x": ("b", "n")})
    with pytest.raises(FormulaError, match="an index lies outside of 0 to 3"):
        evaluate(Inputs(graph, {"x": np.zeros((1, 4))}, {}), Float64())
    graph = trace(lambda x: {"y": take(x, position("n") / 2.0, "n", 7.0)}, {"x": ("b", "n")})
    found = evaluate(Inputs(graph, {"x": np.arange(4.0)[None]}, {}), Float64())[graph.outputs["y"]]
    assert found.tolist() == [[0.0, 7.0, 1.0, 7.0]]


def test_a_dimension_without_elements_is_outside() -> None:
    graph = trace(
        lambda x: {"y": total(take(x, position("o", extent("n") + 2.0) - 1.0, "n", 0.5), "o"), "z": floor(x)},
        {"x": ("b", "n")},
    )
    found = evaluate(Inputs(graph, {"x": np.zeros((2, 0))}, {}), Float64())[graph.outputs["y"]]
    assert found.ravel().tolist() == [1.0, 1.0]


def test_one_element_is_calculated_of_what_its_window_takes() -> None:
    """The precise tier forms no square but these."""
    near = lambda x: {"y": total(take(x * x, position("n") + position("k", 3.0) - 1.0, "n", 0.0), "k")}  # noqa: E731
    graph = trace(near, {"x": ("b", "n")})
    exact = Exact(Inputs(graph, {"x": np.arange(200.0).reshape(2, 100)}, {}))
    assert exact.element(graph.outputs["y"], {"b": 1, "n": 99}) == 198.0**2 + 199.0**2
    (known,) = exact._known.values()
    formed = {dict(fixed).get("n") for node, fixed in known if node.kind == "multiply"}
    assert formed == {98, 99}


def test_what_floor_makes_of_a_quotient_is_one_of_two_beside_places_too() -> None:
    """-120 / 15 is -8, or a little less where a kernel divides by a reciprocal: either floor may be there."""

    def halves(x: Node, q: Node) -> Outputs:
        above = floor(q / 15.0)
        return {"y": total(x * where(position("j", 2.0) == 0.0, q - 15.0 * above, above), "j")}

    codes = Operand("q", "... n", dtype="int8", values="codes")
    op = Op(halves, (Operand("x", "... n"), codes), (Operand("y", "... n"),))
    x, q = np.array([[3.0, 0.5]], np.float32), np.array([[-120, 5]], np.int8)
    with known(op):
        truth = Truth(Problem(op.name, {}, {"x": x, "q": q}, {"y": "f32"}))
        for above, passes in ((-8, True), (-9, True), (-8.5, True), (-10, False)):
            y = x * np.array([[-120 - 14 * above, 5]], np.float32)
            assert (truth.check(Contract(), {"y": y})[0].result == "pass") is passes
