"""Keys of formulas whose tensors hold finite numbers: formulas that differ only for infinities have the same key."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import replace

from oracles.formula.node import COMPARED, Kind, Node, ordered
from oracles.formula.trace import Trace

_KEEPING: Collection[Kind] = "tensor", "max", "negate"
"""Operations whose result is an element of an operand, or its negative."""


def of_numbers(graph: Trace) -> Hashable:
    """Return a key that is equal for two formulas if they calculate the same values in the same way, under the same
    names, as long as all tensors have elements and all elements are finite."""
    taken, known, numbers = dict[Node, Node](), dict[Hashable, Node](), set[Node]()
    for node in ordered([*graph.outputs.values(), *graph.locals.values()]):
        made = _decided(node.made_of(taken), numbers)
        # Two nodes that do the same are one node, unless they may be rounded differently.
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
    """Return the branch that `where` chooses, if it only asks whether a finite number is infinite; else the node."""
    if node.kind != "where" or node.args[0].kind not in COMPARED:
        return node
    mask, *chosen = node.args
    bounds = [each.value for each in mask.args if each.kind == "constant" and math.isinf(each.value)]
    if len(bounds) != 1 or not any(each in numbers for each in mask.args):
        return node
    left, right = (each.value if each.kind == "constant" else 0.0 for each in mask.args)
    found = chosen[0 if left < right else 1]  # one of the two is infinite
    return found if found.dims == node.dims else node
