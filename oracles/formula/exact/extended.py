"""The arithmetic of extended double-double: exact centres if intermediate values leave the range of float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, whichever
from oracles.elementary.function import Elementary
from oracles.formula.exact.arithmetic import Double, Mask, summed_products, took
from oracles.formula.exact.centre import Inputs, Replaced, evaluate
from oracles.formula.trace import Kind, Node

_VANISHING: tuple[Kind, ...] = ("dot", "online", "online_dot", "welford_squares")
"""Operations that may return zero because a product or a function inside underflowed."""


class Extended:
    """The arithmetic of extended double-doubles, an `oracles.formula.exact.arithmetic.Arithmetic`."""

    def lift(self, values: F64) -> ExtendedDouble:
        return ExtendedDouble.of(DoubleDouble(values))

    def apply(self, function: Elementary, values: ExtendedDouble) -> ExtendedDouble:
        return function.extended(values)

    def operate(self, kind: Kind, a: ExtendedDouble, b: ExtendedDouble) -> ExtendedDouble:
        if kind == "add":
            return a + b
        if kind == "subtract":
            return a - b
        return a * b if kind == "multiply" else a / b

    def total(self, values: ExtendedDouble, axis: int) -> ExtendedDouble:
        return values.sum(axis)

    dot = summed_products

    def greatest(self, values: ExtendedDouble, axis: int) -> ExtendedDouble:
        if not values.shape[axis]:
            return self.lift(np.full([1 if at == axis else size for at, size in enumerate(values.shape)], -np.inf))
        before = (slice(None),) * axis
        while (n := values.shape[axis]) > 1:
            half = (n + 1) // 2  # if n is odd, the middle element is in both halves
            a, b = values[(*before, slice(half))], values[(*before, slice(n - half, n))]
            values = self.where(self.compare("less", a, b) | np.isnan(b.fraction.high), b, a)
        return values

    def where(self, mask: Mask, a: ExtendedDouble, b: ExtendedDouble) -> ExtendedDouble:
        return whichever(mask, a, b)

    def compare(self, kind: Kind, a: ExtendedDouble, b: ExtendedDouble) -> Mask:
        one, other = a.fraction, b.fraction
        same = (one.high == other.high) & (one.low == other.low) & (a.exponent == b.exponent)
        less = ((a - b).fraction.high < 0) & ~same
        return np.asarray(less | same if kind == "at_most" else less)

    def take(
        self, table: ExtendedDouble, index: ExtendedDouble, axis: int, outside: ExtendedDouble | None = None
    ) -> ExtendedDouble:
        at, parts = index.doubled.high, _parts(table)
        others = [None] * len(parts) if outside is None else _parts(outside)
        high, low, exponent = (took(each, at, axis, other) for each, other in zip(parts, others, strict=True))
        return ExtendedDouble(DoubleDouble(high, low), exponent)

    def joined(self, parts: Sequence[ExtendedDouble], axis: int) -> ExtendedDouble:
        high, low, exponent = (np.concatenate(some, axis) for some in zip(*map(_parts, parts), strict=True))
        return ExtendedDouble(DoubleDouble(high, low), exponent)


def _parts(values: ExtendedDouble) -> Sequence[NDArray[Any]]:
    return values.fraction.high, values.fraction.low, values.exponent


def wide_values(inputs: Inputs, replaced: Replaced) -> Mapping[Node, Any]:
    """Return the values of all nodes in double-double, or in extended double-double if a value leaves that range."""
    found = evaluate(inputs, Double(), replaced)
    if any(_leaves_range(node, found) for node in found):
        return evaluate(inputs, Extended(), replaced)
    return found


def _leaves_range(node: Node, values: Mapping[Node, Any]) -> bool:
    """Whether a value of the node may be outside the range of double-double. An infinity always counts as outside, and
    so does a zero that may have underflowed."""
    value = values[node]
    if not isinstance(value, DoubleDouble):
        return False
    size = np.abs(value.high)
    zero = size == 0
    if (~(zero | (size >= 2.0**-ORDINARY) & (size <= 2.0**ORDINARY))).any():
        return True
    if node.kind in ("multiply", "divide"):  # a zero that is made from nonzero numbers has underflowed
        zero = zero & (values[node.args[0]].high != 0)
        zero = zero & (values[node.args[1]].high != 0) if node.kind == "multiply" else zero
        return bool(zero.any())
    if node.kind == "function" and node.function.sign != "any" and not node.function.is_exact:
        return bool((zero & (values[node.args[0]].high != 0)).any())
    if node.kind == "pair":
        return bool((zero & (values[node.args[0]].high != 0)).any())
    return node.kind in _VANISHING and bool(zero.any())
