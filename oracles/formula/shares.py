"""Shares: exponentials e^(x - maximum) of the elements of a row, divided by their sum, and means with such weights, as
in a softmax. Whatever the errors of x, no exponential is more than 1 and the largest is 1, so that their sum is at
least 1. A mean with these weights lies between the least and the largest of its values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oracles.formula.node import CONTRACTIONS, Node

_EXPONENTIALS = "exp", "exp2"


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean whose weights are shares, or a share itself."""

    exponential: Node
    mass: Node
    """The sum of the exponentials."""
    value: Node | None = None
    """The values of which the node is the mean; None for a share itself."""
    summed: Node | None = None
    """The sum of the products of exponentials and values; None for a share itself."""


@dataclass(frozen=True, eq=False)
class Shares:
    """All shares in a formula, exponentials divided by their sum, and means that they weight."""

    below: Mapping[Node, Node] = field(default_factory=dict)
    """For each node that is the difference of values and their maximum: the node of the maximum."""
    masses: Mapping[Node, Node] = field(default_factory=dict)
    """For each node that is a sum of exponentials of such differences: the node of the maximum."""
    means: Mapping[Node, Mean] = field(default_factory=dict)


def shares_of(nodes: Sequence[Node]) -> Shares:
    """Return the shares among the nodes of a formula. Each node comes after its arguments."""
    below, masses, means = dict[Node, Node](), dict[Node, Node](), dict[Node, Mean]()
    for node in nodes:
        if node.kind == "subtract" and (most := _or_number(node.args[1])).kind == "max":
            if most.args[0] is node.args[0]:
                below[node] = most
        elif (summed := _summed(node, below)) is not None:
            masses[node] = summed
        for mean in _means(node, below, masses, means):
            means.setdefault(node, mean)
    return Shares(below, masses, means)


def may_be_product(node: Node) -> bool:
    """Whether a value is a product, perhaps chosen, moved or negated: a difference may use the unrounded product."""
    if node.kind == "where":
        return any(map(may_be_product, node.args[1:]))
    return node.kind == "multiply" or (node.kind in ("point", "negate", "take") and may_be_product(node.args[0]))


def _or_number(node: Node) -> Node:
    """Return the `value` in `where(maximum <= -inf, number, value)`; return other nodes unchanged."""
    return node.args[2] if _is_guarded(node) else node


def _is_guarded(node: Node) -> bool:
    if node.kind != "where" or node.args[0].kind != "at_most":
        return False
    (most, least), number = node.args[0].args, node.args[1]
    return most.kind == "max" and least.value == -math.inf and not number.dims


def _is_zero(node: Node) -> bool:
    return node.kind == "constant" and not node.value and not node.low


def _is_exponential(node: Node, below: Mapping[Node, Node]) -> bool:
    return node.kind == "function" and node.label in _EXPONENTIALS and node.args[0] in below


def _exponential(node: Node) -> Node:
    return node.args[0] if node.kind == "point" else node


def _summed(node: Node, below: Mapping[Node, Node]) -> Node | None:
    """Return the maximum that is subtracted in a sum of exponentials; None for other nodes."""
    if node.kind == "online":
        return next((each for each in below.values() if _is_of(each, node)), None)
    if node.kind == "sum" or (node.kind == "online_dot" and node.args[1].value == 1.0 and not node.args[1].dims):
        exponential = _exponential(node.args[0])
        most = below[exponential.args[0]] if _is_exponential(exponential, below) else None
        return most if most is not None and {*most.over} == {*node.over} else None
    return None


def _is_of(most: Node, node: Node) -> bool:
    return most.args[0] is node.args[0] and {*most.over} == {*node.over}


def _means(
    node: Node, below: Mapping[Node, Node], masses: Mapping[Node, Node], means: Mapping[Node, Mean]
) -> Iterator[Mean]:
    if node.kind == "divide":
        yield from _weighted(node.args[0], node.args[1], below, masses)
    elif node.kind == "multiply":
        for one, other in (node.args, node.args[::-1]):
            if other.kind == "divide" and other.args[0].value == 1.0 and not other.args[0].dims:
                yield from _weighted(one, other.args[1], below, masses)
    for first, value in _products(node):
        share = _or_number(_exponential(first))
        mean = means.get(share)
        if mean is not None and mean.value is None and {*masses[mean.mass].over} == {*node.over}:
            yield Mean(mean.exponential, mean.mass, value, node)


def _weighted(value: Node, divisor: Node, below: Mapping[Node, Node], masses: Mapping[Node, Node]) -> Iterator[Mean]:
    mass = _or_number(divisor)
    if mass not in masses:
        return
    most = masses[mass]
    if value.kind == "add" and _is_guarded(value.args[1]) and _is_zero(value.args[1].args[2]):
        value = value.args[0]  # the addend is 0, or a number where the maximum is -inf
    for first, second in ((value, None), *_products(value)):
        exponential = _exponential(first)
        if _is_exponential(exponential, below) and below[exponential.args[0]] is most:
            if second is None:
                yield Mean(exponential, mass)
            elif {*value.over} == {*most.over}:
                yield Mean(exponential, mass, second, value)


def _products(node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the two factors of the products that a sum adds up, in both orders."""
    if node.kind in CONTRACTIONS:
        yield node.args[0], node.args[1]
        yield node.args[1], node.args[0]
    elif node.kind == "sum" and node.args[0].kind == "multiply":
        first, second = node.args[0].args
        yield first, second
        yield second, first
