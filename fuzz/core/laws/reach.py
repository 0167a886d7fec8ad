"""Reach: bounds on the values of a formula and on the intermediate values that kernels form, and the power of a scale
with which each value changes. If inputs are multiplied by powers of s, every value of a formula is multiplied by a
power of s as well, or else the formula knows the scale, as exp does. Kernels may multiply in any order, so the bounds
hold for every product of some of the factors. They are exponents, and cautious. Nothing is evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from oracles.elementary.function import CANCELLED, Elementary
from oracles.formula.trace import Node, Trace


class KnowsTheScaleError(ValueError):
    """A formula has a value that is not multiplied by a power of the scale."""


class ValueRange(NamedTuple):
    """Bounds of a value, if it is finite and not zero, and of the intermediate values that lead to it. All are
    exponents of powers of two. The number 1 is always within the bounds."""

    power: int
    """The power of the scale by which the value is multiplied."""
    scaled: bool
    """Whether the value depends on something that is scaled."""
    least: int
    """The least exponent of the value itself."""
    low: int
    high: int
    """The least (`low`) and the largest exponent of all intermediate values and of the value itself."""
    zero: bool
    """Whether the value may be zero somewhere."""
    signed: bool
    """Whether the value may be negative somewhere."""


Reaches = Mapping[Node, ValueRange | None]
"""The bounds of nodes; None for a node that is always zero or not finite, which no power of the scale changes."""


def leaf(power: int, least: int, most: int, *, zero: bool, signed: bool) -> ValueRange:
    """Return the reach of given values: 2^least <= |v| < 2^most if they are neither zero nor infinite."""
    low = min(least, 0)
    return ValueRange(power, power != 0, low, low, max(most, 0), zero, signed)


def reaches(trace: Trace, leaves: Reaches, extents: Mapping[str, int]) -> Reaches:
    """Return the reach of every node, given those of the leaves. Raise KnowsTheScaleError."""
    found = dict(leaves)
    for node in trace.nodes:
        if node.args:
            found[node] = _step(node, [found[arg] for arg in node.args], extents)
    return found


def _step(node: Node, args: list[ValueRange | None], extents: Mapping[str, int]) -> ValueRange | None:
    kind = node.kind
    if kind in ("multiply", "dot"):
        product = _product(args[0], args[1], square=node.args[0] is node.args[1])
        return _total(product, _terms(node, extents)) if kind == "dot" else product
    if kind == "divide":
        return _product(args[0], _reciprocal(args[1]))
    if kind in ("add", "subtract"):
        return _joined(args[0], args[1], cancels=kind == "subtract")
    if kind == "sum":
        return _total(args[0], _terms(node, extents))
    if kind in ("at_most", "less"):
        joined = _joined(args[0], args[1], cancels=True)
        return leaf(0, 0, 1, zero=True, signed=False) if joined is None else _flag(joined)._replace(power=0)
    if kind == "where":
        return _either(args[1], args[2])
    if kind == "function":
        return _function(node.function, args[0])
    if kind not in ("negate", "max", "point", "take"):
        raise KnowsTheScaleError(f"{kind}, which kernels may form in any way: nothing is known of its bounds")
    own = args[0]
    return own if own is None else own._replace(signed=kind == "negate" or own.signed)


def _product(a: ValueRange | None, b: ValueRange | None, *, square: bool = False) -> ValueRange | None:
    if a is None or b is None:
        return None
    return ValueRange(
        a.power + b.power, a.scaled or b.scaled, a.least + b.least, a.low + b.low, a.high + b.high, a.zero or b.zero,
        (a.signed or b.signed) and not square,
    )  # fmt: skip


def _reciprocal(a: ValueRange | None) -> ValueRange | None:
    return None if a is None else a._replace(power=-a.power, least=-a.high - 1, low=-a.high - 1, high=1 - a.low)


def _joined(a: ValueRange | None, b: ValueRange | None, *, cancels: bool) -> ValueRange | None:
    """Return the reach of a sum or difference."""
    if a is None or b is None:
        kept = a if b is None else b
        return kept if kept is None else kept._replace(signed=kept.signed or cancels)
    _require_alike(a, b)
    cancels = cancels or a.signed or b.signed
    below = CANCELLED if cancels else 0
    least = max(a.least, b.least) - below
    least = min(least, b.least if a.zero else least, a.least if b.zero else least)
    return ValueRange(
        a.power, a.scaled or b.scaled, least, min(least, a.low, b.low), max(a.high, b.high) + 1,
        cancels or (a.zero and b.zero), cancels,
    )  # fmt: skip


def _terms(node: Node, extents: Mapping[str, int]) -> int:
    return math.prod(extents[dim] for dim in node.over)


def _total(a: ValueRange | None, n: int) -> ValueRange | None:
    """Return the reach of a sum of n terms. Each partial sum that is not zero is a term, or the result of adding two
    other partial sums."""
    if a is None:
        return None
    below = CANCELLED if a.signed else 0
    return a._replace(
        least=a.least - below, low=a.low - below, high=a.high + n.bit_length(), zero=a.zero or a.signed
    )  # fmt: skip


def _either(a: ValueRange | None, b: ValueRange | None) -> ValueRange | None:
    if a is None or b is None:
        kept = a if b is None else b
        return kept if kept is None else kept._replace(zero=True)
    _require_alike(a, b)
    return ValueRange(
        a.power, a.scaled or b.scaled, min(a.least, b.least), min(a.low, b.low), max(a.high, b.high), a.zero or b.zero,
        a.signed or b.signed,
    )  # fmt: skip


def _require_alike(a: ValueRange, b: ValueRange) -> None:
    if a.power != b.power:
        raise KnowsTheScaleError(f"a value that goes with s^{a.power} meets one that goes with s^{b.power}")


def _flag(a: ValueRange) -> ValueRange:
    return ValueRange(a.power, a.scaled, 0, 0, 1, zero=True, signed=False)


def _function(of: Elementary, a: ValueRange | None) -> ValueRange | None:
    """Return the reach of a function. Either the scale does not change its argument, so that its result has the same
    bits on both sides, or its result changes with a power of the scale."""
    if of.degree is None:
        if a is None:
            return ValueRange(0, False, 0, 0, 1, zero=True, signed=False)
        if a.power:
            raise KnowsTheScaleError(f"{of.name} of what goes with s^{a.power}")
    elif a is None:
        return None
    power = a.power * (of.degree or 0.0)
    if power % 1:
        raise KnowsTheScaleError(f"a root of what goes with s^{a.power}")
    least, high = of.reach(a.least, a.high)
    least, high = min(least, 0), max(high, 0)
    zero, signed = a.zero or of.degree is None, not of.is_never_negative and (a.signed or of.sign == "any")
    return ValueRange(int(power), a.scaled, least, least, high, zero, signed)
