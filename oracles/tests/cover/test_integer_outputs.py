"""Outputs of integers: codes, counts, flags. Where the argument of a rounding may lie on both sides either is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.check import check
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, exp, floor, greatest, total, where
from oracles.formula.trace import round as nearest
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.problem import Problem
from oracles.tests.common.dims import unsound
from oracles.tests.common.judged import known
from oracles.truth import Truth


def _bounded(q: Node) -> Node:
    low = where(q < -128.0, -128.0, q)
    return where(low > 127.0, 127.0, low)


def quantised(x: Node) -> Outputs:
    """The codes of rows in int8, and the steps between them."""
    scale = greatest(abs(x), "n") / 127.0
    return {"q": _bounded(nearest(x / scale)), "scale": scale}


def coded(x: Node) -> Outputs:
    """Numbers as they are, rounded; those beyond the range are its ends."""
    return {"q": _bounded(nearest(x))}


def counted(x: Node) -> Outputs:
    """How many elements of a row are above e^-1 of its largest, which they are, and how far below they all are."""
    e = exp(x - greatest(x, "n"))
    above = e > 0.36787944117144233
    return {"count": total(where(above, 1.0, 0.0), "n"), "above": above, "steps": floor(greatest(x, "n") - x)}


X = Operand("x", "... n")
QUANTISED = Op(quantised, (X,), (Operand("q", "... n", dtype="int8"), Operand("scale", "...")))
CODED = Op(coded, (X,), (Operand("q", "... n", dtype="int8"),))
COUNTED = Op(
    counted,
    (X,),
    (Operand("count", "...", dtype="int32"), Operand("above", "... n", dtype="bool"),
     Operand("steps", "... n", dtype="int64")),
)  # fmt: skip
ALL = (QUANTISED, CODED, COUNTED)
LENIENT = Contract(nonfinite="unspecified", accuracy={"divide": 2.0})


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


def _truth(op: Op, x: NDArray[Any]) -> Truth:
    outputs = {each.name: each.dtype or "f32" for each in op.outputs}
    return Truth(Problem(op.name, {"axis": 1}, {"x": x}, outputs))


def _results(truth: Truth, outputs: Mapping[str, NDArray[Any]]) -> list[tuple[str, int]]:
    return [(check.result, check.failing) for check in truth.check(LENIENT, outputs)]


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op) -> None:
    check(op)
    assert unsound(op, range(4)) == []


def _codes(x: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.clip(np.rint(x / scale[:, None]), -128, 127).astype(np.int8)
    return found


def test_codes_of_another_step_are_found_and_so_is_each_other_code() -> None:
    x = np.random.default_rng(1).normal(size=(3, 50)).astype(np.float32)
    truth, scale = _truth(QUANTISED, x), np.abs(x).max(-1) / np.float32(127)
    right = {"q": _codes(x, scale), "scale": scale}
    assert _results(truth, right) == [("pass", 0), ("pass", 0)]
    assert _results(truth, {**right, "q": _codes(x, np.abs(x).max(-1) / 128)})[0][0] == "numeric"
    assert _results(truth, {**right, "q": np.trunc(x / scale[:, None]).astype(np.int8)})[0][0] == "numeric"
    off = right["q"].copy()
    off[1, 7] += 1
    assert _results(truth, {**right, "q": off})[0] == ("numeric", 1)


def test_either_side_is_right_where_the_step_is_inexact_and_one_where_the_argument_is_given() -> None:
    x = np.array([[127.0, 2.5, -3.5, 0.49999997]], np.float32)  # the step is 1, as kernels divide by 127
    truth, scale = _truth(QUANTISED, x), np.ones(1, np.float32)
    for tie, other in ((2, -4), (3, -3)):
        got = np.array([[127, tie, other, 0]], np.int8)
        assert _results(truth, {"q": got, "scale": scale})[0] == ("pass", 0)
    assert _results(truth, {"q": np.array([[127, 1, -4, 0]], np.int8), "scale": scale})[0] == ("numeric", 1)
    given = _truth(CODED, np.array([[2.5, -3.5, 300.0, -1e9]], np.float32))
    assert _results(given, {"q": np.array([[2, -4, 127, -128]], np.int8)}) == [("pass", 0)]
    assert _results(given, {"q": np.array([[3, -4, 127, -128]], np.int8)}) == [("numeric", 1)]
    assert _results(given, {"q": np.array([[2, -4, 44, -128]], np.int8)}) == [("numeric", 1)]  # it wrapped


def test_what_the_dtype_does_not_hold_is_not_judged() -> None:
    def steps(x: Node) -> Outputs:
        return {"q": nearest(x)}

    op = Op(steps, (X,), (Operand("q", "... n", dtype="int8"),))
    with known(op):
        truth = _truth(op, np.array([[5.0, 200.0]], np.float32))
        assert _results(truth, {"q": np.array([[5, -56]], np.int8)}) == [("pass", 0)]
        assert _results(truth, {"q": np.array([[6, -56]], np.int8)}) == [("numeric", 1)]


def test_an_integer_is_told_without_bits_and_in_steps_of_one() -> None:
    told = _truth(CODED, np.array([[2.5]], np.float32)).explain(LENIENT, "q", (0, 0), 3.0)
    assert (str(told.got), str(told.expected), told.ulp, told.terms) == ("3", "2", 1.0, ())
    assert "127" in str(_truth(CODED, np.array([[1e3]], np.float32)).explain(LENIENT, "q", (0, 0), 3.0).expected)


def test_an_output_of_integers_that_may_lie_between_two_is_refused() -> None:
    def halves(x: Node) -> Outputs:
        return {"q": x / 2.0}

    with pytest.raises(OpError, match=r"q is of int8, and by the formula no whole number: write f.floor or f.round"):
        check(Op(halves, (X,), (Operand("q", "... n", dtype="int8"),)))
    with pytest.raises(OpError, match="index 'n': that is said of inputs alone"):
        Op(coded, (X,), (Operand("q", "... n", dtype="int32", index="n"),))
