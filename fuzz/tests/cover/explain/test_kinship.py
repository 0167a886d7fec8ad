"""Failures by values are one where a path of values leads from the one to the other on which everything fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fuzz import Contract, Op, Operand
from fuzz import formula as f
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.explain.trial.kinship import are_kin
from fuzz.explain.trial.trial import Family, Trials
from fuzz.tasks.check.function import OwnProcess, declared
from fuzz.tasks.check.request import Calling, Promises
from fuzz.tests.common.own_op import registered
from oracles.formula.node import Node
from oracles.formula.trace import Outputs
from oracles.tests.common.whole import some

Rows = Sequence[float]
Wrong = Callable[[Any, Any, Any, Any], Any]


def gated(a: Node, b: Node, c: Node) -> Outputs:
    return {"y": a * b + c}


def silu_fma(a: Node, b: Node, c: Node) -> Outputs:
    return {"y": a * f.sigmoid(a) * b + c}


INPUTS, OUTPUTS = tuple(Operand(name, "... n") for name in "abc"), (Operand("y", "... n"),)


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with registered(Op(gated, INPUTS, OUTPUTS)), registered(Op(silu_fma, INPUTS, OUTPUTS)):
        yield


def case_of(a: Rows, b: Rows, c: Rows, op: str = "gated") -> Case:
    """Return a case of one row."""
    layout = contiguous((1, len(a)))
    inputs = {
        n: Tensor("f32", layout, np.array(v, np.float32).tobytes()) for n, v in zip("abc", (a, b, c), strict=True)
    }
    return Case(op, {"axis": 1}, inputs, {"y": Output("f32", layout)}, structured=True)


def kin(wrong: Wrong, one: Case, other: Case) -> bool:
    """Whether they are in a kernel whose result is wrong as that function says."""

    def kernel(a: Any, b: Any, c: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where(wrong(a, b, c, a.shape[-1]), c, a * b + c)

    return kin_of(kernel, one, other)


def kin_of(kernel: Callable[..., Any], one: Case, other: Case) -> bool:
    """Whether they are in that kernel. Each must fail."""
    of, function = declared(kernel, one.op, Promises(Contract(zeros="any"), laws=()), Calling(arrays="numpy"))
    [target] = expand([of])
    trials = Trials(OwnProcess([target], function), target, Family("values", wide=True))
    assert all(trials.fails(each) for each in (one, other))
    found = are_kin(trials, one, other)
    assert trials.runs < 150
    return found


def test_places_along_one_threshold_are_one_cause() -> None:
    """What is lost is a product that only a small `c` shows: a rule of each place names other thresholds."""

    def lost(a: Any, b: Any, c: Any, n: int) -> Any:
        return a < -88.0

    far, near = case_of([-101.0], [1e-20], [1e-25]), case_of([-89.0, 2.0], [1e30, 1.0], [1e28, -1.0])
    assert kin(lost, far, near)
    assert kin(lost, near, far)
    assert kin(lost, far, case_of([-np.inf], [1.0], [0.0]))


def test_an_exponential_that_overflows_is_one_cause_wherever_it_was_seen() -> None:
    """The three buckets that a search made of it, each with a rule of its own."""

    def kernel(a: Any, b: Any, c: Any) -> Any:
        with np.errstate(all="ignore"):
            return a / (np.float32(1) + np.exp(-a)) * b + c

    seen = [
        case_of([-101.74297], [16.0], [2.4074124e-35], "silu_fma"),
        case_of([-96.0], [4.1538375e34], [1.0], "silu_fma"),
        case_of([-90.681946, -7.8228157e-16], [1.0, 1.0], [-2.938736e-39, 1.0], "silu_fma"),
    ]
    assert all(kin_of(kernel, one, other) for one, other in some([*permutations(seen, 2)], 2))


def test_values_that_lie_apart_are_two() -> None:
    assert not kin(lambda a, b, c, n: np.abs(a) > 88.0, case_of([99.0], [1.0], [0.0]), case_of([-99.0], [1.0], [0.0]))
    nan_or_large = case_of([np.inf], [2.0], [0.0]), case_of([-1e5], [2.0], [0.0])
    assert not kin(lambda a, b, c, n: np.isinf(a) | (a < -1e4), *nan_or_large)


def test_values_of_two_inputs_are_two_though_both_may_be_wrong_at_once() -> None:
    def either(a: Any, b: Any, c: Any, n: int) -> Any:
        return (a > 88.0) | (b > 88.0)

    assert not kin(either, case_of([99.0], [1.0], [1.0]), case_of([1.0], [99.0], [1.0]))


def test_what_ordinary_values_show_is_no_matter_of_values() -> None:
    def by_length(a: Any, b: Any, c: Any, n: int) -> Any:
        return np.full(a.shape, n in (1, 3))

    assert not kin(by_length, case_of([5.0], [1.0], [1.0]), case_of([5.0, 1.0, 1.0], [1.0] * 3, [1.0] * 3))

    def by_either(a: Any, b: Any, c: Any, n: int) -> Any:
        return by_length(a, b, c, n) | (a > 88.0)

    assert not kin(by_either, case_of([99.0, 1.0], [1.0, 1.0], [1.0, 1.0]), case_of([5.0], [1.0], [1.0]))
