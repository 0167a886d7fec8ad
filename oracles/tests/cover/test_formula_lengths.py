"""Rows of different lengths in one array say what they say by themselves, and are enclosed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from oracles import Contract, Lanes
from oracles.formula.exact.lengths import Lengths, rows_of
from oracles.formula.tiers import joined
from oracles.formula.tiers.joined import Answer, Asked, Received
from oracles.formula.tiers.problem import FormulaProblem
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.tests.common.judged import simulated

NAMES = ("rms_norm", "layer_norm", "softmax", "log_softmax", "softmax_backward", "log_softmax_backward")


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
    assert lengths.total(filled).tobytes() == expected.tobytes()
    assert filled.max(axis=1).tolist() == [row.max() for array in arrays for row in array]
    assert lengths.column[:, 0].tolist() == [n for rows, n in runs for _ in range(rows)]


NOTHING: Mapping[str, str] = {}


def problem(op: str, number: int, rng: np.random.Generator) -> Problem:
    """Of any length, many of them powers of two, parameters and outputs; every other one is structured."""
    length = int(rng.integers(1, 100)) if number % 3 else 2 ** int(rng.integers(1, 7))
    shape = int(rng.integers(1, 4)), length
    known = OPS[op]
    inputs = {
        each.name: rng.standard_normal(shape if known.role(each.name) == "grid" else shape[1:]).astype(np.float32)
        for each in known.inputs
        if not each.optional or each.name == "weight"
    }
    if op.endswith("softmax_backward"):
        size = np.exp(inputs["y"])
        inputs["y"] = size / size.sum(axis=1, keepdims=True)
    outputs = {each.name: "f32" for each in known.outputs if not each.optional or rng.random() < 0.5}
    numbers = {each.name: each.values[number % 3] for each in known.parameters if each.name == "eps"}
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
            next(iter(right.values()))[-1, -1] += 1e-3
        found.append((each, each.problem.structured, [(contract, Received(right))]))
    return found


def said(answers: Sequence[Answer]) -> list[object]:
    """Ratios to as many digits as a row has whatever it is joined with."""
    return [
        None if each is None else [(one.flat, one.blunt, pytest.approx(one.ratio, rel=1e-9)) for one in each]
        for each in answers
    ]


@pytest.mark.parametrize("op", NAMES)
def test_rows_say_the_same_beside_rows_of_other_lengths(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, groups, decide = asked_of(op, 25), list[object](), joined._decide

    def counted(group: joined._Group, found: list[list[Answer]]) -> None:
        groups.append(group)
        decide(group, found)

    monkeypatch.setattr(joined, "_decide", counted)
    together = [said(each) for each in joined.certain(asked)]
    assert len(groups) <= 4, "problems of all lengths are enclosed together"
    assert together == [said(joined.certain([each])[0]) for each in asked]
    passed = [answers[0] is not None for answers in together]
    assert passed == [number % 5 != 4 for number in range(len(asked))]


ALGORITHMS = [(op.name, node, name) for op in OPS.values() for node, known in op.algorithms.items() for name in known]


@pytest.mark.parametrize(("op", "node", "algorithm"), ALGORITHMS)
def test_rows_of_an_algorithm_say_the_same_beside_others(op: str, node: str, algorithm: str) -> None:
    """One that multiplies by the length rounds those products where the length is no power of two."""
    asked = asked_of(op, 25, {node: algorithm})
    together = [said(each) for each in joined.certain(asked)]
    assert together == [said(joined.certain([each])[0]) for each in asked]
    assert any(answers[0] is not None for answers in together)
