"""What float64 decides by chance, and all that depends on it: of these only the precise tier can tell anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from oracles.enclosure import Mask
from oracles.formula.exact.arithmetic import Float64, took
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.node import SELECTS
from oracles.formula.trace import REDUCTIONS, Node, ordered


def dependent(inputs: Inputs, doubts: Mapping[Node, Mask]) -> Mapping[Node, Mask]:
    """What depends on values that float64 decides by chance, of which it is known where they are."""
    found, no = dict[Node, Mask](), np.zeros((1,) * len(inputs.trace.dims), bool)
    for node in inputs.trace.nodes:
        found[node] = _reduced(inputs, node, doubts.get(node, no))
        for place, arg in enumerate(node.args):
            of_table = node.kind == "take" and not place
            found[node] = found[node] | (_taken if of_table else _reduced)(inputs, node, found[arg])
    return found


def _taken(inputs: Inputs, node: Node, mask: Mask) -> Mask:
    """The mask of a table at the places that are taken of it, where these follow from no tensor."""
    (axis,), index = inputs.axes(node), node.args[1]
    if not mask.any() or mask.shape[axis] == 1 or any(each.kind == "tensor" for each in ordered([index])):
        return _reduced(inputs, node, mask)
    places = evaluate(replace(inputs, trace=replace(inputs.trace, outputs={"index": index})), Float64())[index]
    return np.asarray(took(mask, places, axis, np.zeros((1,) * mask.ndim, bool)))


def _reduced(inputs: Inputs, node: Node, mask: Mask) -> Mask:
    if node.kind not in (*REDUCTIONS, "take", "scan", *SELECTS):
        return mask
    return np.asarray(np.logical_or.reduce(mask, axis=inputs.axes(node), keepdims=True))
