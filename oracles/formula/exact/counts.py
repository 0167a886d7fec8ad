"""What a formula counts: places, extents and indices, and what is made of them. Kernels calculate it in integers."""

from __future__ import annotations

from collections.abc import Collection

from oracles.formula.node import COMPARED
from oracles.formula.trace import Kind, Node, Trace, ordered

_WHOLE: tuple[Kind, ...] = ("add", "subtract", "multiply", "negate", "where", "at_most", "less")
"""What is made so of whole numbers is one; a quotient of two is one where it is an index or `floor` is taken of it: it
differs from its neighbours by more than float64 rounds off."""
_PARTS = 1024.0
"""Numbers such as 0.5, which stands between two places, are exact beside them."""


def counted(trace: Trace, integers: Collection[str]) -> frozenset[Node]:
    """The nodes that every kernel has alike, whole numbers or nearly: those made of places, and those of indices.
    `integers` are the tensors of integers, whose quotients kernels may have as floats: what `floor` makes of these is
    one of two numbers, and so is what is made of it, beside places too."""
    whole, parts, placed, either = set[Node](), set[Node](), set[Node](), set[Node]()
    for node in trace.nodes:
        if not node.args:
            known = node.kind in ("position", "extent") or (node.kind == "tensor" and node.label in integers)
            if known or (node.kind == "constant" and (node.value * _PARTS).is_integer() and not node.low):
                whole.add(node)
            if node.kind == "position":
                placed.add(node)
            continue
        compared, floored = node.kind in COMPARED, node.operation == "floor"
        exact = whole | parts if floored else whole
        all_whole = all(arg in exact or (compared and arg.kind == "constant") for arg in node.args)
        if all_whole and (node.kind in _WHOLE or floored or node.kind == "divide"):
            (parts if node.kind == "divide" else whole).add(node)
            if not either.isdisjoint(node.args) or (floored and parts.difference(placed) & {*node.args}):
                either.add(node)
            elif not placed.isdisjoint(node.args):
                placed.add(node)
    indices = ordered(node.args[1] for node in trace.nodes if node.kind == "take")
    return frozenset(node for node in (*placed, *indices) if node.args and (node in whole or node in parts))
