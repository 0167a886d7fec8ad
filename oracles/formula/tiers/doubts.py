"""What the fast tier cannot tell of values: what double-double may have lost, and what float64 decides by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.doubledouble import DoubleDouble
from oracles.enclosure import Mask
from oracles.formula.exact.centre import Inputs, Replaced
from oracles.formula.trace import REDUCTIONS, Node

_DOUBLE_RANGE = (2.0**-900, 2.0**900)
"""Between these magnitudes, zero apart, no double-double operation under- or overflows on the way."""


def lost(inputs: Inputs, values: Mapping[Node, Any], replaced: Replaced) -> Mapping[Node, Mask]:
    """Where double-double values may be wrong: one lies beyond what it holds to its last bit, or depends on one."""
    found = dict[Node, Mask]()
    (least, most), no = _DOUBLE_RANGE, np.zeros((1,) * len(inputs.trace.dims), bool)

    def taken(node: Node, place: int) -> Any:
        """The argument at that place, as the node takes it."""
        high, new = values[node.args[place]].high, replaced.get((node, place))
        return high if new is None else np.where(np.isnan(new), high, new)

    def is_nothing(node: Node, place: int) -> Mask:
        arg, new = node.args[place], replaced.get((node, place))
        if not isinstance(values[arg], DoubleDouble):
            return no
        wrong = found[arg] if new is None else found[arg] & np.isnan(new)
        return np.asarray((taken(node, place) == 0) & ~wrong)

    for node in inputs.trace.nodes:
        value, wrong = values[node], no
        if isinstance(value, DoubleDouble):
            size = np.abs(value.high)
            wrong = ~((size == 0) | (size >= least) & (size <= most))
            if node.kind in ("multiply", "divide"):  # a zero of numbers that are none
                vanished = size == 0
                for place in (0, 1) if node.kind == "multiply" else (0,):
                    vanished = vanished & (taken(node, place) != 0)
                wrong = wrong | vanished
        for place, arg in enumerate(node.args):
            new = replaced.get((node, place))
            of_arg = found[arg] if new is None else found[arg] & np.isnan(new)
            if node.kind == "multiply":  # whatever it is, times zero it is zero
                of_arg = of_arg & ~is_nothing(node, 1 - place)
            wrong = wrong | of_arg
        wrong, new = _reduced(inputs, node, wrong), replaced.get((node, None))
        found[node] = wrong if new is None else wrong & np.isnan(new)  # what every kernel has is what it is
    return found


def dependent(inputs: Inputs, doubts: Mapping[Node, Mask]) -> Mapping[Node, Mask]:
    """What depends on values that float64 decides by chance, of which it is known where they are."""
    found, no = dict[Node, Mask](), np.zeros((1,) * len(inputs.trace.dims), bool)
    for node in inputs.trace.nodes:
        doubt = doubts.get(node, no)
        for arg in node.args:
            doubt = doubt | found[arg]
        found[node] = _reduced(inputs, node, doubt)
    return found


def _reduced(inputs: Inputs, node: Node, mask: Mask) -> Mask:
    if node.kind not in (*REDUCTIONS, "take"):
        return mask
    return np.asarray(np.logical_or.reduce(mask, axis=inputs.axis(node.label), keepdims=True))
