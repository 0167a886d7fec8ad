"""The whole numbers in a formula: those that it counts with, which kernels calculate in integers, and the possible
values of integer outputs. An element of an integer output must be one of these values, since a kernel does not round to
integers by chance."""

from __future__ import annotations

from collections.abc import Collection

from oracles.formula.node import COMPARED, TOLD
from oracles.formula.trace import Kind, Node, Trace, ordered

_WHOLE: tuple[Kind, ...] = ("add", "subtract", "multiply", "negate", "where", "at_most", "less")
"""Operations that make whole numbers from whole numbers. A quotient of whole numbers is accepted as an index or as the
argument of `floor`: two different quotients differ by more than the rounding of float64."""
_PARTS = 1024.0
"""A constant counts as whole if it is a multiple of 1 / `_PARTS`, such as 0.5: float64 adds it to a place exactly."""


def counted(trace: Trace, integers: Collection[str]) -> frozenset[Node]:
    """Return the nodes made from positions and indices alone, which every kernel calculates in integers, and so without
    errors. `integers` are the names of tensors of integers. Kernels may form a quotient of inputs in floats, so that
    `floor` returns one of two values: a node made from such a quotient counts only if a `take` uses it as index, or if
    places are compared with it."""
    whole, parts, placed, either, told = set[Node](), set[Node](), set[Node](), set[Node](), set[Node]()
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
        if all_whole and (node.kind in (*_WHOLE, "divide") or node.operation in ("floor", "abs")):
            (parts if node.kind == "divide" else whole).add(node)
            if not either.isdisjoint(node.args) or (floored and parts.difference(placed) & {*node.args}):
                either.add(node)
            elif not placed.isdisjoint(node.args):
                placed.add(node)
        elif (compared or node.kind in ("add", "subtract")) and all(arg in whole | parts for arg in node.args):
            parts.add(node)  # such as a place plus half of an extent: an index, if a `take` uses it
            if compared and not placed.isdisjoint(node.args):
                told.add(node)
    indices = ordered([*(node.args[1] for node in trace.nodes if node.kind == "take"), *told])
    return frozenset(node for node in (*placed, *indices) if node.args and (node in whole or node in parts))


_ALWAYS: tuple[Kind, ...] = ("position", "extent", *TOLD)
_AS_ARGUMENTS: tuple[Kind, ...] = ("add", "subtract", "multiply", "negate", "sum", "dot", "max", "point")
_CHOSEN: tuple[Kind, ...] = ("where",)
_MADE = ("floor", "round", "sign")
"""The functions whose values are whole numbers."""


def whole(trace: Trace, integers: Collection[str]) -> frozenset[Node]:
    """Return the nodes whose values are whole numbers or infinite. `integers` are the names of tensors of integers."""
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
