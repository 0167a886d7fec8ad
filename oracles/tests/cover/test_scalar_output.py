"""An output without dimensions is judged like any other: it has one element, at the index ()."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, exp, total
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.tests.common.judged import known
from oracles.truth import Truth, settle


def whole(x: Node, scale: Node | None = None) -> Outputs:
    """y = scale times the sum of all x, z = e^x."""
    y = total(total(x, "n"), "b")
    return {"y": y if scale is None else y * scale, "z": exp(x)}


WHOLE = Op(
    whole,
    inputs=(Operand("x", "b n"), Operand("scale", "", optional=True)),
    outputs=(Operand("y", ""), Operand("z", "b n")),
)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(WHOLE):
        yield


def _problem(shape: tuple[int, int], *, scaled: bool) -> Problem:
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    inputs = {"x": x, **({"scale": np.array(2.0, np.float32)} if scaled else {})}
    return Problem("whole", {}, inputs, {"y": "f32", "z": "f32"})


def _right(problem: Problem) -> dict[str, NDArray[np.float32]]:
    x = problem.inputs["x"].astype(np.float64)
    y = x.sum() * problem.inputs.get("scale", np.array(1.0))
    return {"y": np.array(y, np.float32), "z": np.exp(x).astype(np.float32)}


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shape", [(2, 5), (1, 1), (0, 3)])
def test_one_number_is_judged_alone_and_explained(shape: tuple[int, int], scaled: bool) -> None:
    problem = _problem(shape, scaled=scaled)
    truth, right = Truth(problem), _right(problem)
    y, _ = truth.check(Contract(), right)
    assert (y.result, y.worst_index, y.mask) == ("pass", (), None)
    wrong, z = truth.check(Contract(), {**right, "y": right["y"] + np.float32(0.5)})
    assert (wrong.result, wrong.worst_index, wrong.failing, wrong.contradicts) == ("numeric", (), 1, True)
    assert wrong.mask is not None
    assert (wrong.mask.shape, bool(wrong.mask)) == ((), True)
    assert z.result == "pass"
    told = truth.explain(Contract(), "y", (), float(right["y"]) + 0.5)
    assert (told.index, told.ratio > 1.0) == ((), True)


def test_in_a_batch_it_is_judged_beside_others() -> None:
    truths = [Truth(_problem(shape, scaled=False)) for shape in ((2, 5), (3, 4), (2, 5), (1, 7))]
    outputs = [_right(truth.problem) for truth in truths]
    outputs[2] = {**outputs[2], "y": outputs[2]["y"] + np.float32(1.0)}
    asked = [(truth, [(Contract(), truth.receive(got))]) for truth, got in zip(truths, outputs, strict=True)]
    found = [one for (one,) in settle(asked)]
    assert [found[at] is not None for at in range(4)] == [True, True, False, True]
    assert truths[2].check(Contract(), outputs[2])[0].result == "numeric"
