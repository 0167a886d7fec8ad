"""What a recurrence multiplies by again and again: drawn like any number it would soon overflow, or leave nothing."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.formula.trace import Kind, Node, ordered, trace
from oracles.op import Op

_PLAIN: tuple[Kind, ...] = (
    "tensor", "constant", "extent", "position", "add", "subtract", "multiply", "negate", "take",
)  # fmt: skip
GATES, LOG_GATES = "gates", "log_gates"


def gates_of(op: Op) -> Mapping[str, str]:
    """Return the menu of each input whose elements are factors of a recurrence, or logarithms of factors."""
    graph, found = trace(op.formula, {each.name: each.axes for each in op.inputs}), dict[str, str]()
    for node in graph.nodes:
        if node.kind != "scan":
            continue
        factor, menu = node.args[0], GATES
        while factor.kind == "take":
            factor = factor.args[0]
        if factor.operation == "exp":
            factor, menu = factor.args[0], LOG_GATES
        within = [*ordered([factor])]
        if all(each.kind in _PLAIN for each in within):
            found |= dict.fromkeys(_tensors(within), menu)
    return found


def _tensors(nodes: list[Node]) -> list[str]:
    return [node.label for node in nodes if node.kind == "tensor"]
