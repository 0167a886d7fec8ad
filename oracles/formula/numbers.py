"""What is left of a formula where its tensors hold numbers: ways that differ for infinities alone are one there."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import replace

from oracles.formula.node import COMPARED, Kind, Node, ordered
from oracles.formula.trace import Trace

_KEEPING: Collection[Kind] = "tensor", "max", "negate"
"""What these make of numbers is one of them, or its negative."""


def of_numbers(graph: Trace) -> Hashable:
    """Return what is equal for formulas that calculate the same in one way, and call it the same, where all tensors
    hold numbers and have elements: whether a number is infinite is decided."""
    taken, known, numbers = dict[Node, Node](), dict[Hashable, Node](), set[Node]()
    for node in ordered([*graph.outputs.values(), *graph.locals.values()]):
        made = _decided(node.made_of(taken), numbers)
        # Twice the same is the same, unless it is rounded.
        if made.kind != "point" and (made.is_exact or not made.args):
            same = made.kind, made.label, made.value.hex(), made.low.hex(), made.count, made.dims, made.args
            made = known.setdefault(same, made)
        taken[node] = made
        if made.kind in _KEEPING and all(arg in numbers for arg in made.args):
            numbers.add(made)
    called = {name: taken[node] for name, node in graph.locals.items()}
    outputs = {name: taken[node] for name, node in graph.outputs.items()}
    found = replace(graph, outputs=outputs, locals=called)
    return found.digest, tuple(found.names.get(node) for node in found.nodes)


def _decided(node: Node, numbers: Collection[Node]) -> Node:
    """What is chosen, if that only depends on whether a number is infinite; any other node as it is."""
    if node.kind != "where" or node.args[0].kind not in COMPARED:
        return node
    mask, *chosen = node.args
    bounds = [each.value for each in mask.args if each.kind == "constant" and math.isinf(each.value)]
    if len(bounds) != 1 or not any(each in numbers for each in mask.args):
        return node
    left, right = (each.value if each.kind == "constant" else 0.0 for each in mask.args)
    found = chosen[0 if left < right else 1]  # one of them is infinite
    return found if found.dims == node.dims else node
