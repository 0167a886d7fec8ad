"""Inputs of integers, judged: what a right kernel returns passes in both tiers, and another element does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, floor, take, where
from oracles.op import Op
from oracles.operand import CODES, ENDS, FLAGS, LENGTHS, Operand, OpError
from oracles.problem import Problem
from oracles.tests.common.integers import ALL, ENTROPY, GATHERED, KEPT, PADDED
from oracles.tests.common.judged import known
from oracles.truth import Truth


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


def entropy(x: NDArray[Any], label: NDArray[Any]) -> NDArray[Any]:
    most = x.max(-1)
    mass = np.exp(x - most[:, None]).sum(-1)
    return np.asarray(np.log(mass) + most - x[np.arange(len(x)), label])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_loss_of_each_rows_label_passes_and_of_another_label_does_not(dtype: str) -> None:
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    label = np.array([0, 6, 3, 3, 1], dtype)
    truth = Truth(Problem(ENTROPY.name, {"axis": 1}, {"x": x, "label": label}, {"loss": "f32"}))
    found = entropy(x, label)
    assert [check.result for check in truth.check(Contract(), {"loss": found})] == ["pass"]
    wrong = np.where(np.arange(5) == 1, entropy(x, label * 0), found).astype(np.float32)
    [check] = truth.check(Contract(), {"loss": wrong})
    assert (check.result, check.failing, check.worst_index) == ("numeric", 1, (1,))
    told = truth.explain(Contract(), "loss", (1,), float(wrong[1]))
    assert ("label", "6") in [(name, text.split(" ")[0]) for name, text in told.given]


def test_rows_that_are_gathered_are_those_of_the_table_bit_for_bit() -> None:
    table = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float16)
    place = np.array([5, 0, 0, 2], np.int32)
    truth = Truth(Problem(GATHERED.name, {"axis": 1}, {"table": table, "place": place}, {"y": "f16"}))
    assert [check.result for check in truth.check(Contract(), {"y": table[place]})] == ["pass"]
    off = np.nextafter(table[place], np.float16(9))
    assert [check.failing for check in truth.check(Contract(), {"y": off})] == [12]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_where_a_place_is_missing_there_is_what_the_formula_says(dtype: str) -> None:
    table = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
    place = np.array([5, -1, 0, -1], dtype)
    outputs = {"y": "f32", "count": "f32"}
    truth = Truth(Problem(PADDED.name, {"axis": 1}, {"table": table, "place": place}, outputs))
    right = np.where(place[:, None] < 0, np.float32(7), table[place])
    results = [check.result for check in truth.check(Contract(), {"y": right, "count": np.array(2, np.float32)})]
    assert results == ["pass", "pass"]
    checks = truth.check(Contract(), {"y": table[place], "count": np.array(4, np.float32)})
    assert [check.failing for check in checks] == [6, 1]


def test_flags_choose_and_are_counted() -> None:
    x = np.random.default_rng(3).normal(size=(4, 9)).astype(np.float32)
    keep = np.random.default_rng(4).random((4, 9)) < 0.5
    inputs = {"x": x, "keep": keep}
    truth = Truth(Problem(KEPT.name, {"axis": 1}, inputs, {"y": "f32", "count": "f32"}))
    right = {"y": np.where(keep, x, np.float32(0)), "count": keep.sum(-1).astype(np.float32)}
    assert [check.result for check in truth.check(Contract(), right)] == ["pass", "pass"]
    results = [check.result for check in truth.check(Contract(), {"y": x, "count": right["count"] + 1})]
    assert results == ["numeric", "numeric"]


def own(x: Node, i: Node) -> Outputs:
    return {"y": take(x, i, "n")}


@pytest.mark.parametrize(
    ("i", "message"),
    [
        (Operand("i", "...", dtype="int64"), "write index='DIMENSION'"),
        (Operand("i", "...", dtype="int8", index="n"), "places are of dtype int32 or int64"),
        (Operand("i", "...", index="n"), "places are of dtype int32 or int64"),
        (Operand("i", "...", dtype="int64", index="m"), "index 'm' is no dimension of an input"),
        (Operand("i", "...", dtype="int64", index="n", missing=3), "missing 3 is no number below 0"),
        (Operand("i", "... n", dtype="bool", values=FLAGS, missing=-1), "missing -1 is no number below 0"),
        (Operand("i", "...", dtype="int64", values=ENDS), "write index='DIMENSION' that they are along"),
        (Operand("i", "", dtype="int64", index="n", values=ENDS), "and a dimension of pieces"),
        (Operand("i", "...", dtype="int64", index="n", values=ENDS, missing=-1), "missing -1 is no number below 0"),
        (Operand("i", "...", dtype="int64", values=LENGTHS), "write index='DIMENSION' that they are along"),
        (Operand("i", "", dtype="int64", index="n m", values=LENGTHS), "index 'n m' is no dimension of an input"),
        (Operand("i", "", dtype="int64", index="n n"), "index 'n n' is no dimension of an input"),
        (Operand("i", "n", dtype="bool", values=FLAGS, stackable=True), "integers cannot be stackable"),
    ],
)
def test_integers_that_mean_nothing_are_refused_in_one_line(i: Operand, message: str) -> None:
    with pytest.raises(OpError) as caught:
        Op(own, (Operand("x", "... n"), i), (Operand("y", "..."),))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_first_input_is_not_of_integers() -> None:
    flags = Operand("x", "... n", dtype="bool", values=FLAGS)
    with pytest.raises(OpError, match="the first input cannot be of integers"):
        Op(own, (flags, Operand("i", "...")), (Operand("y", "..."),))


def times_quotient(x: Node, a: Node, b: Node) -> Outputs:
    return {"y": x * where(b == 0.0, 0.0, floor(a / b))}


def test_a_zero_that_is_made_of_integers_may_have_either_sign() -> None:
    """0 / -5 of integers is 0, and of floats -0: neither was accepted where it was the other one."""
    inputs = (Operand("x", "n"), *(Operand(name, "n", dtype="int8", values=CODES) for name in "ab"))
    with known(Op(times_quotient, inputs, (Operand("y", "n"),))):
        given: dict[str, NDArray[Any]] = {
            "x": np.array([2, 2, 0], np.float32), "a": np.array([0, 7, 7], np.int8),
            "b": np.array([-5, -5, -5], np.int8),
        }  # fmt: skip
        truth = Truth(Problem("times_quotient", {}, given, {"y": "f32"}))
        for zero in (0.0, -0.0):
            got = {"y": np.array([zero, -4.0, -0.0], np.float32)}
            assert truth.check(Contract(), got)[0].result == "pass"
        assert truth.check(Contract(), {"y": np.array([0.0, -4.0, 0.0], np.float32)})[0].result != "pass"
