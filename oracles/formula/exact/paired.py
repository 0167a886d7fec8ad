"""The exact values of functions of two values, in any arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble
from oracles.formula.exact.arithmetic import Arithmetic, Double, Float64, Values
from oracles.formula.node import Node
from oracles.formula.pairs import pair

Step = Callable[[Node, list[Values]], Values]
_MINUS = -(mpmath.mpf(2) ** -(1 << 40))
"""A negative number that is nearer to zero than any other one."""


def paired(node: Node, args: Sequence[Values], arithmetic: Arithmetic, step: Step) -> Values:
    """Return a function of two values, of which `step` calculates one step. In float64 it is the value in
    double-double, rounded; see `oracles.formula.pairs.own_bound`."""
    if isinstance(arithmetic, Float64):
        doubled = Double()
        return _in_steps(node, [DoubleDouble(each) for each in args], doubled, _steps(doubled)).high
    return _in_steps(node, args, arithmetic, step)


def _steps(doubled: Double) -> Step:
    def step(node: Node, args: list[Values]) -> Values:
        if node.kind == "function":
            return doubled.apply(node.function, *args)
        if node.kind == "where":
            return doubled.where(*args)
        if node.kind in ("at_most", "less"):
            return doubled.compare(node.kind, *args)
        return -args[0] if node.kind == "negate" else doubled.operate(node.kind, *args)

    return step


def _in_steps(node: Node, args: Sequence[Values], arithmetic: Arithmetic, step: Step) -> Values:
    of, rank = pair(node.label), len(args[0].shape)
    found = dict(zip((of.first, of.second), args, strict=True))
    for each in of.nodes:
        if each not in found:
            given = [found[arg] for arg in each.args]
            found[each] = step(each, given) if given else arithmetic.lift(np.full((1,) * rank, each.value))
    return found[of.value]


def with_sign(node: Node, values: NDArray[Any], leaf: Callable[[Node], F64]) -> NDArray[Any]:
    """Return numbers of mpmath, which has no -0, with a tiny negative number in the place of each -0 of a tensor, whose
    values in float64 `leaf` returns."""
    while node.kind == "point":
        (node,) = node.args
    if node.kind != "tensor":
        return values
    own = leaf(node)
    minus = (own == 0) & np.signbit(own)
    return np.where(minus, _MINUS, values) if minus.any() else values
