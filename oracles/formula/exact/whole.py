"""What a formula has whole numbers for: an output of integers is one of these, as no kernel rounds by chance to an
integer."""

from __future__ import annotations

from collections.abc import Collection

from oracles.formula.node import TOLD
from oracles.formula.trace import Kind, Node, Trace

_ALWAYS: tuple[Kind, ...] = ("position", "extent", *TOLD)
_AS_ARGUMENTS: tuple[Kind, ...] = ("add", "subtract", "multiply", "negate", "sum", "dot", "max", "point")
_CHOSEN: tuple[Kind, ...] = ("where",)
_MADE = ("floor", "round", "sign")
"""The functions whose values are whole numbers."""


def whole(trace: Trace, integers: Collection[str]) -> frozenset[Node]:
    """Return the nodes whose values are whole numbers, or infinite. `integers` are the tensors of integers."""
    found = set[Node]()
    for node in trace.nodes:
        if _is_whole(node, found, integers):
            found.add(node)
    return frozenset(found)


def _is_whole(node: Node, known: Collection[Node], integers: Collection[str]) -> bool:
    if node.kind in _ALWAYS or node.operation in _MADE:
        return True
    if node.kind == "tensor":
        return node.label in integers
    if node.kind == "constant":
        return node.value.is_integer() and not node.low
    if node.kind == "take":
        return all(arg in known for place, arg in enumerate(node.args) if place != 1)
    among = node.args[:1] if node.kind == "ranked" else node.args[1:] if node.kind in _CHOSEN else node.args
    passes = node.kind in (*_AS_ARGUMENTS, *_CHOSEN, "ranked") or node.operation == "abs"
    return passes and all(arg in known for arg in among)
