"""What is selected by order: the largest elements, their places, rows that are sorted; ties; places as an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.check import check
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Double, Float64, Precise
from oracles.formula.exact.centre import Exact, Inputs, evaluate
from oracles.formula.exact.extended import Extended
from oracles.formula.exact.rigorous import Rigorous
from oracles.formula.trace import FormulaError, Node, Outputs, Ties, Trace, argmax, position, sort, take, topk, trace
from oracles.op import Op
from oracles.operand import Operand
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.tests.common.dims import problem, unsound
from oracles.tests.common.gradients import gradient
from oracles.tests.common.judged import known
from oracles.tests.common.selected import ALL, BEST, CHOSEN, ORDERED, ROUTED, SQUARED
from oracles.truth import Truth


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


def _graph(op: Op) -> Trace:
    return trace(op.formula, {each.name: each.axes for each in op.inputs})


def _truth(op: Op, **inputs: NDArray[Any]) -> Truth:
    outputs = {each.name: each.dtype or "f32" for each in op.outputs}
    return Truth(Problem(op.name, {"axis": inputs[op.main].ndim - 1}, inputs, outputs))


def _results(truth: Truth, outputs: Mapping[str, NDArray[Any]]) -> list[tuple[str, int]]:
    return [(check.result, check.failing) for check in truth.check(Contract(), outputs)]


ROWS = np.array([[1.0, 5.0, -2.0, 5.0, 0.5, -0.0], [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]])


@pytest.mark.parametrize(
    "arithmetic", [Float64(), Precise(), Double(), Extended(), Rigorous()], ids=lambda a: type(a).__name__
)
def test_order_and_places_are_numpys_in_every_arithmetic(arithmetic: Any) -> None:
    found = evaluate(Inputs(graph := _graph(ORDERED), {"x": ROWS}, {}), arithmetic)
    wanted = {
        "y": np.sort(ROWS), "places": np.argsort(ROWS, kind="stable"), "down": np.argsort(-ROWS, kind="stable"),
    }  # fmt: skip
    for name, right in wanted.items():
        value = found[graph.outputs[name]]
        for part in ("doubled", "high", "value"):
            value = getattr(value, part, value)
        assert np.array_equal(np.asarray(value).astype(float).reshape(right.shape), right), name


def test_single_elements_are_those_of_whole_rows() -> None:
    for op, arrays in ((ORDERED, {"x": ROWS}), (ROUTED, {"x": ROWS}), (BEST, {"x": ROWS})):
        inputs = Inputs(graph := _graph(op), arrays, {})
        whole, exact = evaluate(inputs, Float64()), Exact(inputs)
        for each in op.outputs:
            node = graph.outputs[each.name]
            dims = [dim for dim in graph.dims if dim in node.dims]
            values = whole[node].reshape([inputs.extents[dim] for dim in dims])
            last = {dim: size - 1 for dim, size in zip(dims, values.shape, strict=True)}
            assert float(exact.element(node, last)) == pytest.approx(float(values.flat[-1]), rel=1e-12)


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op) -> None:
    check(op)
    assert unsound(op, range(4)) == []


@pytest.mark.parametrize("op", [ROUTED, SQUARED], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_both_tiers_say_the_same_of_every_place(op: Op, dtype: str) -> None:
    of = problem(op, {"n": 6}, (2,), dtype, 0)
    x = of.inputs["x"].copy()
    x[0, 3], x[1, :4] = np.nextafter(x[0, 1], x.dtype.type(9)), x[1, 5]
    truth = Truth(Problem(op.name, of.params, {"x": x}, of.outputs))
    enclosure, decided = truth.enclosures(Contract(dtype), False)["places"], 0
    for place in range(-1, 7):
        compared = compare(enclosure, np.full(enclosure.below.shape, float(place)))
        alone = compared.failing if compared.repeated is None else compared.failing & ~compared.repeated
        for index in np.ndindex(alone.shape):
            bounds = truth.bounds(Contract(dtype), "places", index, False)
            assert bounds is not None
            if not compared.unsure[index]:
                decided += 1
                assert conforms(bounds, float(place)) != alone[index], (place, index, bounds.members)
    assert decided > 20


def _routing(x: NDArray[Any], k: int = 2) -> dict[str, NDArray[Any]]:
    p = np.exp(x - x.max(-1, keepdims=True))
    places = np.argsort(-p, axis=-1, kind="stable")[:, :k]
    weights = np.take_along_axis(p, places, -1)
    return {"weights": weights / weights.sum(-1, keepdims=True), "places": places}


def test_a_wrong_routing_is_found() -> None:
    x = np.random.default_rng(1).normal(size=(40, 9)).astype(np.float32)
    truth, right = _truth(ROUTED, x=x), _routing(x)
    assert _results(truth, right) == [("pass", 0), ("pass", 0)]
    short = _routing(x[:, :-1])
    assert [result for result, _ in _results(truth, short)] == ["numeric", "numeric"]
    third = {**right, "places": np.argsort(-x, -1)[:, [0, 2]]}
    assert _results(truth, third) == [("pass", 0), ("numeric", 40)]
    turned = {name: values[:, ::-1].copy() for name, values in right.items()}
    assert [result for result, _ in _results(truth, turned)] == ["numeric", "numeric"]
    assert _results(truth, {**right, "places": right["places"][:, [0, 0]]})[1] == ("numeric", 40)


def test_a_place_that_stands_there_twice_is_wrong_where_each_by_itself_is_right() -> None:
    x = np.array([[0.0, 2.0, 2.0, 2.0]], np.float32)
    truth = _truth(ROUTED, x=x)
    half = np.full((1, 2), 0.5, np.float32)
    for places, failing in (([1, 2], 0), ([3, 1], 0), ([3, 3], 1), ([0, 1], 1)):
        [_, (result, count)] = _results(truth, {"weights": half, "places": np.array([places])})
        assert (result, count) == ("numeric" if failing else "pass", failing), places
    told = truth.explain(Contract(), "places", (0, 1), 3.0)
    assert told.remarks == ("any place of 1, 2, 3, each once",)
    assert (str(told.got), str(told.low), str(told.high)) == ("3", "1", "3")


@pytest.mark.parametrize(("ties", "right"), [("either", {1, 3}), ("first", {1}), ("last", {3})])
def test_ties_of_what_is_given_are_settled_by_the_policy(ties: Ties, right: set[int]) -> None:
    def most(x: Node) -> Outputs:
        return {"at": argmax(x, "n", ties)}

    op = Op(most, (Operand("x", "... n"),), (Operand("at", "...", dtype="int32"),))
    with known(op):
        truth = _truth(op, x=np.array([[1.0, 7.0, 2.0, 7.0]], np.float32))
        passing = {at for at in range(-1, 5) if _results(truth, {"at": np.array([at], np.int32)})[0][0] == "pass"}
    assert passing == right


def test_of_what_is_calculated_any_place_is_right_whose_element_may_be_as_large() -> None:
    x = np.array([[1.0, 1.0 + 2.0**-23, 0.5, 1.0 - 2.0**-12]], np.float32)
    truth, weights = _truth(ROUTED, x=x), _routing(x)["weights"]
    for places, result in (([1, 0], "pass"), ([0, 1], "pass"), ([1, 3], "numeric"), ([3, 0], "numeric")):
        assert _results(truth, {"weights": weights, "places": np.array([places])})[1][0] == result, places
    given, y = _truth(ORDERED, x=x), np.sort(x)
    for places, result in (([2, 3, 0, 1], "pass"), ([2, 3, 1, 0], "numeric")):  # as given, every kernel knows them
        found = {"y": y, "places": np.array([places]), "down": np.array([places[::-1]], np.int32)}
        assert {each for each, _ in _results(given, found)} == {"pass", result}


def test_elements_at_a_place_that_kernels_know_are_exact_and_else_any_of_the_candidates() -> None:
    table = np.array([[1.0, 10.0], [3.0, -5.0], [4.0, 20.0]], np.float32)
    x = np.array([[0.0, 2.0, -1.0], [1.0, 1.0, -3.0]], np.float32)

    def failing(second: list[float]) -> int:
        row = np.array([table[1], second], np.float32)
        left = np.zeros_like(x)
        left[0, 1] = 2.0
        left[1, int(second[0] == 3.0)] = 1.0
        return _results(_truth(CHOSEN, table=table, x=x), {"row": row, "left": left})[0][1]

    assert (failing([1.0, 10.0]), failing([3.0, -5.0])) == (0, 0)
    assert failing([4.0, 20.0]) == 2  # that row is no candidate
    row = np.array([[3.0, np.nextafter(np.float32(-5.0), np.float32(0))], [1.0, 10.0]], np.float32)
    truth = _truth(CHOSEN, table=table, x=x)
    assert truth.check(Contract(), {"row": row, "left": np.zeros_like(x)})[0].failing == 1


def test_gradients_go_to_where_the_elements_stood() -> None:
    def largest(x: Node) -> Outputs:
        return {"y": topk(x, 2, "n")[0]}

    def rising(x: Node) -> Outputs:
        return {"y": sort(x, "n")[0] * position("n")}

    x = np.array([[1.0, 5.0, -2.0, 4.0]])
    for formula, wanted in ((largest, [0.0, 1.0, 0.0, 1.0]), (rising, [1.0, 3.0, 0.0, 2.0])):
        graph = gradient(trace(formula, {"x": ("b", "n")}), "y", ["x"])
        ones = np.ones((1, 2 if formula is largest else 4))
        found = evaluate(Inputs(graph, {"x": x, "dy": ones}, {}), Float64())[graph.outputs["dx"]]
        assert found.reshape(-1).tolist() == wanted


def test_rows_shorter_than_k_are_not_drawn() -> None:
    assert ROUTED.whole({"...": 3, "n": 1}) is None
    assert ROUTED.whole({"...": 3, "n": 2}) == {"...": 3, "n": 2, "k": 2}


def test_what_means_nothing_is_refused() -> None:
    def most(x: Node) -> Outputs:
        return {"at": argmax(x, "m")}

    with pytest.raises(FormulaError, match="place along 'm': the value has only the dimensions"):
        trace(most, {"x": ("n",)})
    with pytest.raises(FormulaError, match="ties='any': it is one of 'either', 'first', 'last'"):
        trace(lambda x: {"at": argmax(x, "n", "any")}, {"x": ("n",)})  # type: ignore[arg-type]


def test_an_index_that_is_off_by_less_than_a_half_is_a_place() -> None:
    def after(x: Node) -> Outputs:
        return {"y": take(x, argmax(x, "n") + 1.0, "n", outside=0.0)}

    op = Op(after, (Operand("x", "... n"),), (Operand("y", "..."),))
    with known(op):
        truth = _truth(op, x=np.array([[1.0, 7.0, 2.0], [1.0, 2.0, 7.0]], np.float32))
        assert _results(truth, {"y": np.array([2.0, 0.0], np.float32)}) == [("pass", 0)]
        assert _results(truth, {"y": np.array([1.0, 0.0], np.float32)}) == [("numeric", 1)]
