"""Functions of two values, as expressions of exact steps: their values and errors of operands follow from these, and
kernels round once, by as much as their contract says of the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from oracles.elementary.elementwise import U, V
from oracles.elementary.function import Bound
from oracles.formula.node import Node, chosen, lifted, ordered

_LEAST = 2.0**-1074
"""The smallest positive number that any format has."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A function of the values `first` and `second`."""

    first: Node
    second: Node
    value: Node
    nodes: tuple[Node, ...]
    """The value and all nodes that it is made of, each after its own arguments."""


@cache
def pair(name: str) -> Pair:
    """Return the function of this name."""
    first, second = Node("tensor", label="a"), Node("tensor", label="b")
    value = EXPRESSIONS[name](first, second)
    return Pair(first, second, value, tuple(ordered([value])))


def own_bound(wide: bool) -> Bound:
    """Return the error of a value in float64, which is the rounded one in double-double, or of the latter. There the
    logarithm in a power is off by 34 V and a product by 5 V, of up to 1100, which is that much of the power, too; the
    steps of the other functions add up to less than 100 V."""
    return Bound(2.0**16 * V, 2.0**-1073) if wide else Bound(1.01 * U, 2.0**-1074)


def _atan2(y: Node, x: Node) -> Node:
    """Return the angle of (x, y): the arctangent of the smaller size over the larger one, mirrored at diagonals and
    axes. A zero counts as its sign says."""
    tall, wide = (chosen(abs(each) < _LEAST, 0.0, abs(each)) for each in (y, x))
    steep = wide < tall
    less, more = chosen(steep, wide, tall), chosen(steep, tall, wide)
    ratio = chosen(_same(less, more), 1.0, less / more)
    angle = chosen(_same(tall, 0.0), 0.0, ratio).apply("atan")
    quarter = 2.0 * lifted(1.0).apply("atan")
    angle = chosen(steep, quarter - angle, angle)
    angle = chosen(_is_negative(x), 2.0 * quarter - angle, angle)
    return chosen(_same(x, x), chosen(_is_negative(y), -angle, angle), x)


def _hypot(a: Node, b: Node) -> Node:
    """Return the root of the sum of squares, scaled by the larger one; infinite if one is, even beside NaN."""
    first, second = abs(a), abs(b)
    large = chosen(first < second, second, first)
    ratio = chosen(_same(first, second), 1.0, chosen(first < second, first, second) / large)
    size = large * (1.0 + ratio * ratio).apply("sqrt")
    infinite = chosen(_same(first, math.inf), 1.0, chosen(_same(second, math.inf), 1.0, 0.0))
    return chosen(infinite, math.inf, size)


def _pow(x: Node, y: Node) -> Node:
    """Return x to the power y, by the table of C: 1 if x is 1 or y is 0, even beside NaN; of a negative number only
    for whole exponents; an infinite exponent is even."""
    size = chosen(abs(x) < _LEAST, 0.0, abs(x))
    at_one = chosen(_same(size, 1.0), chosen(_same(abs(y), math.inf), 1.0, 0.0), 0.0)
    power = chosen(at_one, 1.0, (y * size.apply("log2")).apply("exp2"))
    half = 0.5 * y
    whole, even = _same(y.apply("floor"), y), _same(half.apply("floor"), half)
    odd = chosen(whole, chosen(even, 0.0, 1.0), 0.0)
    below = chosen(x < 0.0, chosen(-math.inf < x, 1.0, 0.0), 0.0)
    signed = chosen(odd, chosen(_is_negative(x), -power, power), power)
    defined = chosen(below, chosen(whole, signed, math.nan), signed)
    return chosen(_same(x, 1.0), 1.0, chosen(abs(y) < _LEAST, 1.0, defined))


def _same(a: Node, b: Node | float) -> Node:
    return chosen(a <= b, chosen(a >= b, 1.0, 0.0), 0.0)


def _is_negative(x: Node) -> Node:
    """Whether a value is negative, or -0."""
    return chosen(x < 0.0, 1.0, chosen(1.0 / x < 0.0, 1.0, 0.0))


EXPRESSIONS: Mapping[str, Callable[[Node, Node], Node]] = {"atan2": _atan2, "hypot": _hypot, "pow": _pow}
"""The functions of two values; `pow` is also a family of functions of one, with a constant exponent."""
