"""Names that an op does not have are refused when it is read, and what tries it has the extents that are fixed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from oracles.algorithm import is_addend
from oracles.check import check
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, extent, position, take
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.problem import Problem
from oracles.tests.common.judged import known
from oracles.truth import Truth

X, Y = Operand("x", "... n"), Operand("y", "... n")


@pytest.mark.parametrize("of", [extent, position])
def test_a_dimension_that_no_tensor_has_is_refused_with_those_that_there_are(of: Callable[[str], Node]) -> None:
    def times(x: Node) -> Outputs:
        return {"y": x * of("k")}

    with pytest.raises(OpError, match=rf"^times: {of.__name__}\('k'\): given x there are only .* '\.\.\.', 'n'$"):
        check(Op(times, (X,), (Y,)))


@pytest.mark.parametrize("dtype", ["e9m9", "f8", "float32", "nonsense"])
def test_a_dtype_that_is_none_is_refused_with_those_that_there_are(dtype: str) -> None:
    def copied(x: Node) -> Outputs:
        return {"y": x + 0.0}

    with pytest.raises(OpError, match=f"^copied: y: dtype '{dtype}' is neither a tensor .* nor one of f32, "):
        Op(copied, (X,), (Operand("y", "... n", dtype=dtype),))


def fifth(a: Node, h0: Node | None = None) -> Outputs:
    """y = the last of six, and h0."""
    last = take(a, 5.0, "t")
    return {"y": last if h0 is None else last + h0}


FIFTH = Op(fifth, (Operand("a", "c t"), Operand("h0", "c", optional=True)), (Operand("y", "c"),), fixed={"t": 6})


def test_what_tries_a_formula_has_the_extents_that_are_fixed() -> None:
    with known(FIFTH):
        check(FIFTH)
        assert is_addend(FIFTH, "h0")
        a = np.arange(12.0, dtype=np.float32).reshape(2, 6)
        truth = Truth(Problem("fifth", {}, {"a": a}, {"y": "f32"}))
        assert truth.check(Contract(), {"y": a[:, 5].copy()})[0].result == "pass"
        assert truth.check(Contract(), {"y": a[:, 4].copy()})[0].result == "numeric"
