"""What float64 decides by chance, and all that depends on it: of these only the precise tier can tell anything."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oracles.enclosure import Mask
from oracles.formula.exact.centre import Inputs
from oracles.formula.node import SELECTS
from oracles.formula.trace import REDUCTIONS, Node


def dependent(inputs: Inputs, doubts: Mapping[Node, Mask]) -> Mapping[Node, Mask]:
    """What depends on values that float64 decides by chance, of which it is known where they are."""
    found, no = dict[Node, Mask](), np.zeros((1,) * len(inputs.trace.dims), bool)
    for node in inputs.trace.nodes:
        found[node] = _reduced(inputs, node, doubts.get(node, no))
        for arg in node.args:
            found[node] = found[node] | _reduced(inputs, node, found[arg])
    return found


def _reduced(inputs: Inputs, node: Node, mask: Mask) -> Mask:
    if node.kind not in (*REDUCTIONS, "take", "scan", *SELECTS):
        return mask
    return np.asarray(np.logical_or.reduce(mask, axis=inputs.axes(node), keepdims=True))
