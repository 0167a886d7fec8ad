"""Rows of different lengths, and problems of different extents, say what they say by themselves, and are enclosed
together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import Contract, Lanes
from oracles.formula.exact.lengths import Extents, Lengths, rows_of
from oracles.formula.trace import Node, Outputs, dot, extent, position, take, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.tests.common.dims import GEMM
from oracles.tests.common.judged import simulated
from oracles.tiers import joined
from oracles.tiers.joined import Answer, Asked, Received
from oracles.tiers.problem import FormulaProblem

NAMES = ("rms_norm", "layer_norm", "softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
COUNTED = ("cumsum", "row_mean_backward", "row_max_backward", "logsumexp", "cross_entropy_backward")
"""Ops that scan, or whose elements follow from their place, or from comparisons."""
DEPENDENT = ("rms_norm_backward", "fused_add_rms_norm_backward", "layer_norm_backward")
"""The ops of which some outputs are sums over rows."""


def test_a_row_that_is_filled_up_has_its_own_sum_to_the_last_bit() -> None:
    rng, runs = (
        np.random.default_rng(31),
        [(int(rows), int(n)) for rows, n in [(1, 1), (3, 7), (2, 130), (1, 130), (4, 8)]],
    )
    arrays = [rng.standard_normal(run) for run in runs]
    lengths = Lengths(runs, 200)
    filled = rows_of(arrays, lengths)
    assert filled.shape == (sum(rows for rows, _ in runs), 200)
    expected = np.concatenate([array.sum(axis=1, keepdims=True) for array in arrays])
    assert lengths.total(filled, 1).tobytes() == expected.tobytes()
    assert filled.max(axis=1).tolist() == [row.max() for array in arrays for row in array]
    assert lengths.count("n")[:, 0].tolist() == [n for rows, n in runs for _ in range(rows)]


def test_a_problem_that_is_filled_up_has_its_own_sums_to_the_last_bit() -> None:
    rng, sizes = np.random.default_rng(33), [{"...": rows, "n": n} for rows, n in [(1, 1), (5, 3), (5, 130), (2, 130)]]
    arrays = [rng.standard_normal([*each.values()]) for each in sizes]
    extents = Extents(sizes, {"...": 6, "n": 200})
    filled = extents.filled(arrays, ("...", "n"))
    assert filled.shape == (4, 6, 200)
    for axis, dim in ((1, "..."), (2, "n")):
        found = extents.total(filled, axis)
        for place, array in enumerate(arrays):
            own = array.sum(axis=axis - 1, keepdims=True)
            assert found[place][tuple(slice(0, size) for size in own.shape)].tobytes() == own.tobytes()
        assert extents.count(dim).ravel().tolist() == [each[dim] for each in sizes]
    assert [each.max() for each in filled] == [each.max() for each in arrays]
    columns = extents.filled([array[0] for array in arrays], ("n",))
    assert columns.shape == (4, 200)
    assert (columns[1, 3:] == arrays[1][0, -1]).all()


NOTHING: Mapping[str, str] = {}


def problem(op: str, number: int, rng: np.random.Generator) -> Problem:
    """Return a problem of any length, many of them powers of two, parameters and outputs; every other one is
    structured."""
    length = int(rng.integers(1, 100)) if number % 3 else 2 ** int(rng.integers(1, 7))
    shape = int(rng.integers(1, 4)), length
    known = OPS[op]
    inputs = dict[str, NDArray[Any]]()
    for each in known.inputs:
        own = known.shape(each.name, shape, 1)
        if each.integers:
            inputs[each.name] = rng.integers(0, length, own)
        elif not each.optional or each.name == "weight":
            inputs[each.name] = rng.standard_normal(own).astype(np.float32)
    if op.endswith("softmax_backward"):
        size = np.exp(inputs["y"])
        inputs["y"] = size / size.sum(axis=1, keepdims=True)
    outputs = {each.name: "f32" for each in known.outputs if not each.optional or op in DEPENDENT or rng.random() < 0.5}
    numbers = {
        each.name: each.values[number % 3 % len(each.values)] for each in known.parameters if each.neutral is None
    }
    return Problem(op, numbers, inputs, outputs, structured=number % 2 == 0)


def asked_of(op: str, count: int, algorithm: Mapping[str, str] = NOTHING) -> list[Asked]:
    rng, found = np.random.default_rng(32), list[Asked]()
    for number in range(count):
        each = FormulaProblem(problem(op, number, rng))
        sums = ({}, {"n": Lanes(4, 2, "scalar")})[number % 2]
        contract = Contract(algorithm=algorithm, sums=sums)
        got = {name: values.astype(np.float64) for name, values in simulated(each.problem).items()}
        right = {name: got[name].reshape(-1, *got[name].shape[1:]) for name in each.problem.outputs}
        if number % 5 == 4:
            next(iter(right.values())).reshape(-1)[-1] += 1e-3
        found.append((each, each.problem.structured, [(contract, Received(right))]))
    return found


def said(answers: Sequence[Answer]) -> list[object]:
    """Ratios to as many digits as a row has whatever it is joined with."""
    return [
        None if each is None else [(one.flat, one.blunt, pytest.approx(one.ratio, rel=1e-9)) for one in each]
        for each in answers
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize("op", [*NAMES, *COUNTED, *DEPENDENT])
def test_rows_say_the_same_beside_rows_of_other_lengths(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, groups, decide = asked_of(op, 25), list[object](), joined._decide

    def counted(group: joined._Group, found: list[list[Answer]]) -> None:
        groups.append(group)
        decide(group, found)

    monkeypatch.setattr(joined, "_decide", counted)
    together = [said(each) for each in joined.certain(asked)]
    assert len(groups) <= (8 if op in DEPENDENT else 4), "problems of all lengths are enclosed together"
    assert together == [said(joined.certain([each])[0]) for each in asked]
    passed = [answers[0] is not None for answers in together]
    assert passed == [number % 5 != 4 for number in range(len(asked))]


ROWS = [op for op in OPS.values() if op.any_axis]
ALGORITHMS = [(op.name, node, name) for op in ROWS for node, known in op.algorithms.items() for name in known]


@pytest.mark.some(2)
@pytest.mark.parametrize(("op", "node", "algorithm"), ALGORITHMS)
def test_rows_of_an_algorithm_say_the_same_beside_others(op: str, node: str, algorithm: str) -> None:
    """One that multiplies by the length rounds those products where the length is no power of two."""
    asked = asked_of(op, 25, {node: algorithm})
    together = [said(each) for each in joined.certain(asked)]
    assert together == [said(joined.certain([each])[0]) for each in asked]
    # Codes of 8 bits are seldom certain, and no screen knows places.
    seldom = op == "quantize_rows_e4m3" or any(each.integers for each in OPS[op].outputs)
    assert any(answers[0] is not None for answers in together) or seldom


def gemm(rng: np.random.Generator) -> Problem:
    m, k, n = (int(each) for each in rng.integers(2, 9, size=3))
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return Problem("gemm", {"alpha": 0.5}, {"a": a, "b": b}, {"c": "f32", "sums": "f32"}, structured=m % 2 == 0)


def matmul(rng: np.random.Generator) -> Problem:
    """It chooses, by a parameter too."""
    m, k, n = (int(each) for each in rng.integers(2, 9, size=3))
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return Problem("matmul", {"relu": 1.0}, {"a": a, "b": b}, {"c": "f32"}, structured=m % 2 == 0)


def embedding(rng: np.random.Generator) -> Problem:
    v, d, t = (int(each) for each in rng.integers(2, 9, size=3))
    table, ids = rng.standard_normal((v, d)).astype(np.float32), rng.integers(0, v, t)
    return Problem("embedding", {}, {"table": table, "index": ids}, {"y": "f32"}, structured=v % 2 == 0)


def window_sums(rng: np.random.Generator) -> Problem:
    n, k = int(rng.integers(5, 12)), int(rng.integers(2, 5))
    x, taps = rng.standard_normal(n).astype(np.float32), rng.standard_normal(k).astype(np.float32)
    return Problem("windows", {}, {"x": x, "w": taps}, {"y": "f32"}, structured=n % 2 == 0)


def windows(x: Node, w: Node) -> Outputs:
    """Sums over windows that reach over the end, where there are zeros."""
    y = dot(take(x, position("n") + position("k"), "n", 0.0), w, "k")
    return {"y": where(position("n") + 1.0 < extent("n"), y, -y) + 0.0}


WINDOWS = Op(windows, inputs=(Operand("x", "n"), Operand("w", "k")), outputs=(Operand("y", "n"),))


@pytest.mark.some(2)
@pytest.mark.parametrize("made", [gemm, matmul, embedding, window_sums])
def test_problems_of_several_dims_say_the_same_beside_others(
    made: Callable[[np.random.Generator], Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, asked, groups, decide = np.random.default_rng(34), list[Asked](), list[object](), joined._decide
    monkeypatch.setitem(OPS, GEMM.name, GEMM)
    monkeypatch.setitem(OPS, WINDOWS.name, WINDOWS)
    for number in range(20):
        each = FormulaProblem(made(rng))
        got = {name: values.astype(np.float64) for name, values in simulated(each.problem).items()}
        right = {name: each.arranged(name, got[name]) for name in each.problem.outputs}
        if number % 5 == 4:
            name = next(iter(right))
            right[name] = right[name] * (1 + 1e-3 * (right[name] == right[name].max()))
        asked.append((each, each.problem.structured, [(Contract(), Received(right))]))

    def counted(group: joined._Group, found: list[list[Answer]]) -> None:
        groups.append(group)
        decide(group, found)

    monkeypatch.setattr(joined, "_decide", counted)
    together = [said(each) for each in joined.certain(asked)]
    assert len(groups) < 4, "problems of all extents are enclosed together"
    assert together == [said(joined.certain([each])[0]) for each in asked]
    assert [answers[0] is not None for answers in together] == [number % 5 != 4 for number in range(20)]
