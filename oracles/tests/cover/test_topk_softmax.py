"""Routing: which experts, of equal ones whichever the op says, and their weights, on hostile rows of logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.truth import Truth

_LOW = -np.inf


def _routed(op: str, x: NDArray[np.float32], places: Sequence[int], renormalise: bool) -> list[NDArray[np.float64]]:
    """The right weights of these places."""
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max())
        weights = e[list(places)] / e.sum()
        return [weights / weights.sum() if renormalise or op == "softmax_of_topk" else weights]


def _results(op: str, logits: Sequence[float], places: Sequence[int], renormalise: bool = False) -> list[str]:
    """What is said of the right weights, and of these places."""
    x = np.array([logits], np.float32)
    params = {"axis": 1, "renormalise": float(renormalise)} if op == "topk_softmax" else {"axis": 1}
    [weights] = _routed(op, x[0], places, renormalise)
    truth = Truth(Problem(op, params, {"x": x}, {"weight": "f32", "expert": "int64"}))
    outputs = {"weight": weights.astype(np.float32)[None], "expert": np.array([places])}
    return [check.result for check in truth.check(Contract(), outputs)]


@pytest.mark.parametrize(
    ("logits", "places", "either"),
    [
        ([3.0, 1.0, 2.0, 0.0], [0, 2, 1], True),
        ([1.0, 1.0, 1.0, 1.0], [0, 1, 2], True),
        ([1.0, 1.0, 1.0, 1.0], [3, 1, 0], False),
        ([_LOW, 2.0, _LOW, _LOW], [1, 0, 2], True),
        ([_LOW, 2.0, _LOW, _LOW], [1, 3, 0], False),
        ([7.0, 7.0], [0, 1], True),
        ([7.0, 7.0], [1, 0], False),
        ([-3.0], [0], True),
        ([2e4, -2e4, 1e4, -3e38], [0, 2, 1], True),
    ],
)
def test_of_equal_logits_any_come_first_or_the_first_ones(logits: list[float], places: list[int], either: bool) -> None:
    """Also of one expert, where all are taken, and where most are masked."""
    for renormalise in (False, True):
        assert _results("topk_softmax", logits, places, renormalise) == ["pass", "pass"]
    assert _results("softmax_of_topk", logits, places) == ["pass", "pass" if either else "numeric"]


@pytest.mark.parametrize("op", ["topk_softmax", "softmax_of_topk"])
def test_wrong_experts_are_found(op: str) -> None:
    logits = [0.0, 1.0, 1.0, 3.0, 2.0, -1.0]
    assert OPS[op].whole({"...": 1, "n": 6}) == {"...": 1, "n": 6, "k": 4}
    assert _results(op, logits, [3, 4, 1, 2]) == ["pass", "pass"]
    x = np.array([logits], np.float32)
    [weights] = _routed(op, x[0], [3, 4, 1, 2], False)
    for places in ([3, 4, 1, 1], [3, 4, 1, 6], [3, 4, 1, -1], [4, 3, 1, 2], [3, 4, 1, 0]):
        truth = Truth(Problem(op, {"axis": 1}, {"x": x}, {"weight": "f32", "expert": "int64"}))
        outputs = {"weight": weights.astype(np.float32)[None], "expert": np.array([places])}
        assert [check.result for check in truth.check(Contract(), outputs)] == ["pass", "numeric"], places


@pytest.mark.parametrize("logits", [[1.0, np.nan, 0.0, 2.0], [np.nan] * 4, [np.inf, 0.0, 1.0, 2.0]])
def test_a_row_that_is_not_finite_has_weights_of_nan_wherever_its_experts_are(logits: list[float]) -> None:
    x = np.array([logits, [0.0, 1.0, 2.0, 3.0]], np.float32)
    truth = Truth(Problem("topk_softmax", {"axis": 1}, {"x": x}, {"weight": "f32", "expert": "int64"}))
    [other] = _routed("topk_softmax", x[1], [3, 2, 1], False)
    for weight, result in ((np.nan, "pass"), (0.0, "nonfinite")):
        outputs = {"weight": np.array([[weight] * 3, other], np.float32), "expert": np.array([[2, 0, 1], [3, 2, 1]])}
        assert truth.check(Contract(), outputs)[0].result == result


@pytest.mark.parametrize("op", ["topk_softmax", "softmax_of_topk"])
def test_rows_of_minus_infinity_have_no_weights(op: str) -> None:
    x = np.full((1, 4), _LOW, np.float32)
    truth = Truth(Problem(op, {"axis": 1}, {"x": x}, {"weight": "f32", "expert": "int64"}))
    for weight, result in ((np.nan, "pass"), (0.0, "nonfinite")):
        outputs = {"weight": np.full((1, 3), weight, np.float32), "expert": np.array([[0, 1, 2]])}
        assert truth.check(Contract(), outputs)[0].result == result
