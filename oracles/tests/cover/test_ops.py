"""The built-in ops: gradients that are those of their forwards, and algorithms of the same exact value, in mpmath."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Precise
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import Trace, trace
from oracles.op import Op
from oracles.ops import OPS as KNOWN
from oracles.ops.layer_norm import LAYER_NORM, LAYER_NORM_BACKWARD
from oracles.ops.softmax import LOG_SOFTMAX, LOG_SOFTMAX_BACKWARD, SOFTMAX, SOFTMAX_BACKWARD
from oracles.problem import Problem
from oracles.tests.common.gradients import gradient
from oracles.truth import Truth

Arrays = Mapping[str, NDArray[Any]]
SIZES = {"...": 3, "n": 5}
BITS = 300
OPS = (LAYER_NORM, LAYER_NORM_BACKWARD, SOFTMAX, SOFTMAX_BACKWARD, LOG_SOFTMAX, LOG_SOFTMAX_BACKWARD)
ALGORITHMS = [(op, local, name) for op in OPS for local, each in op.algorithms.items() for name in each]


def traced(op: Op, *left_out: str) -> Trace:
    tensors = {each.name: each.axes for each in op.inputs if each.name not in left_out}
    return trace(op.formula, tensors, [each.name for each in op.parameters])


def values(graph: Trace, given: Arrays | None = None) -> Arrays:
    """All that has a name, and the outputs by theirs; of normal inputs where none are given."""
    random = np.random.default_rng(7)
    drawn = {name: random.normal(size=[SIZES[dim] for dim in dims]) for name, dims in graph.tensors.items()}
    tensors = {name: (given or drawn).get(name, drawn[name]) for name in drawn}
    parameters = {node.label: 2.0**-9 for node in graph.nodes if node.kind == "parameter"}
    inputs = Inputs(graph, tensors, parameters)
    found = evaluate(inputs, Precise())
    named = {name: found[node] for node, name in graph.names.items() if node in found}
    return {**named, **{name: found[node] for name, node in graph.outputs.items()}, **inputs.tensors}


def assert_same(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert (abs(found - expected) <= (1 + abs(expected)) * mpmath.ldexp(1, 40 - BITS)).all()


@pytest.mark.parametrize("there", [(), ("weight",), ("bias",), ("weight", "bias")])
def test_the_backward_of_layer_norm_is_its_gradient(there: tuple[str, ...]) -> None:
    absent = {"weight", "bias"} - {*there}
    with mpmath.workprec(BITS):
        expected = values(gradient(traced(LAYER_NORM, *absent), "y", ("x", *there)))
        found = values(traced(LAYER_NORM_BACKWARD, *absent, "mean", "rstd"), expected)
        for name, output in {"x": "dx", "weight": "dw", "bias": "db"}.items():
            if name in ("x", *there):
                assert_same(found[output], expected[f"d{name}"])


def test_what_the_forward_stores_takes_the_place_of_what_the_backward_forms() -> None:
    with mpmath.workprec(BITS):
        stored = values(traced(LAYER_NORM))
        given = {name: stored[name].reshape(SIZES["..."]) for name in ("mean", "rstd")}
        formed = values(traced(LAYER_NORM_BACKWARD, "mean", "rstd"), stored)
        found = values(traced(LAYER_NORM_BACKWARD), {**formed, **given})
        for output in ("dx", "dw", "db"):
            assert_same(found[output], formed[output])


@pytest.mark.parametrize(
    ("forward", "backward"), [(SOFTMAX, SOFTMAX_BACKWARD), (LOG_SOFTMAX, LOG_SOFTMAX_BACKWARD)], ids=lambda op: op.name
)
def test_the_backward_of_softmax_is_its_gradient(forward: Op, backward: Op) -> None:
    with mpmath.workprec(BITS):
        expected = values(gradient(traced(forward), "y", ("x",)))
        output = values(traced(forward), expected)["y"]
        found = values(traced(backward), {**expected, "y": output})
        assert_same(found["dx"], expected["dx"])


@pytest.mark.parametrize("name", ["row_sum", "row_mean", "row_var", "logsumexp"])
def test_the_backward_of_a_reduction_is_its_gradient(name: str) -> None:
    """Whether it is given the output or not."""
    forward, backward = KNOWN[name], KNOWN[f"{name}_backward"]
    with mpmath.workprec(BITS):
        expected = values(gradient(traced(forward), "y", ("x",)))
        output = values(traced(forward), expected)["y"].reshape(SIZES["..."])
        for left_out in {(), tuple(each.name for each in backward.inputs if each.optional)}:
            assert_same(values(traced(backward, *left_out), {**expected, "y": output})["dx"], expected["dx"])


TIED = np.array([[1, 3, 3, 2, 3], [-2, -2, -2, -2, -2], [0, 1, 2, 3, 4]], np.float32)
"""Three of five are the greatest, all of them, and one."""
WORTH = np.array([6.0, -10.0, 7.0], np.float32)
OF_TIES = {
    0: [[0, 2, 2, 0, 2], [-2, -2, -2, -2, -2], [0, 0, 0, 0, 7]],
    1: [[0, 6, 0, 0, 0], [-10, 0, 0, 0, 0], [0, 0, 0, 0, 7]],
    2: [[0, 0, 0, 0, 6], [0, 0, 0, 0, -10], [0, 0, 0, 0, 7]],
    3: [[0, 6, 6, 0, 6], [-10, -10, -10, -10, -10], [0, 0, 0, 0, 7]],
}


@pytest.mark.some(2)
@pytest.mark.parametrize("of_ties", OF_TIES)
def test_equal_greatest_elements_have_the_gradient_that_is_asked_for(of_ties: int) -> None:
    of = Problem("row_max_backward", {"of_ties": float(of_ties)}, {"x": TIED, "dy": WORTH}, {"dx": "f32"})
    for other, dx in OF_TIES.items():
        (check,) = Truth(of).check(Contract(), {"dx": np.array(dx, np.float32)})
        assert (check.result == "pass") == (other == of_ties)


@pytest.mark.parametrize(("op", "local", "name"), ALGORITHMS, ids=[f"{op.name}-{x}-{y}" for op, x, y in ALGORITHMS])
def test_every_algorithm_has_the_exact_value_of_what_it_replaces(op: Op, local: str, name: str) -> None:
    """Also where mean and rstd are given, and are those of another row."""
    algorithm, graph = op.algorithms[local][name], traced(op)
    dims = {each: [dim for dim in graph.dims if dim in node.dims] for node, each in graph.names.items()}
    taken = {each: dims[each] for each in inspect.signature(algorithm).parameters}
    with mpmath.workprec(BITS):
        expected = values(graph)
        given = {each: expected[each].reshape([SIZES[dim] for dim in taken[each]]) for each in taken}
        other = trace(lambda **nodes: {"found": algorithm(**nodes)}, taken)
        assert_same(values(other, given)["found"], expected[local])
