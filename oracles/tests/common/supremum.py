"""The exact first-order supremum of a kernel's error, by brute force: each rounding perturbed alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.budget import sum_budget
from oracles.formula.affine.budget import Budget
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, step
from oracles.formula.trace import Node

_STEP = 1e-7


def supremum(budget: Budget, output: str) -> NDArray[np.float64]:
    """Return the largest error of a problem of one row, before the rounding to the output's dtype; the last operation
    counts as rounded."""
    graph, found = budget.inputs.trace, 0.0
    plain = _values(budget.inputs, None, np.ones((1, 1)))
    for node in graph.nodes:
        if not node.args or node.is_exact:
            continue
        weight = _weight(budget, node)
        places = plain[node.args[0] if node.kind == "sum" else node].shape[1]
        scale = 1.0 + _STEP * np.eye(places)
        rows = {name: np.repeat(values, places, 0) if graph.tensors[name][0] == "..." else values
                for name, values in budget.inputs.tensors.items()}  # fmt: skip
        moved = _values(Inputs(graph, rows, budget.inputs.parameters), node, scale)
        change = np.abs(moved[graph.outputs[output]] - plain[graph.outputs[output]]) / _STEP
        found = found + change.sum(0, keepdims=True) * weight
    return np.asarray(found)


def _weight(budget: Budget, node: Node) -> float:
    """The largest relative error of what a node makes of exact arguments; of a sum, that of each of its terms."""
    dtype = budget.dtype(node)
    if node.kind == "sum":
        return sum_budget(dtype, budget.order(node).chain(budget.inputs.extents[node.label]), True)[1]
    return budget.contract.relative(node.operation, dtype.u) if node.kind in ("function", "divide") else dtype.u


def _values(inputs: Inputs, perturbed: Node | None, scale: NDArray[np.float64]) -> Mapping[Node, Any]:
    found: dict[Node, Any] = {}
    for node in inputs.trace.nodes:
        args = [found[arg] for arg in node.args]
        if node is perturbed and node.kind == "sum":
            args[0] = args[0] * scale
        found[node] = step(node, args, Float64(), inputs) if args else inputs.leaf(node)
        if node is perturbed and node.kind != "sum":
            found[node] = found[node] * scale
    return found
