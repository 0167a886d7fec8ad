"""Outputs of a formula and of its reference, made comparable: places are compared by the elements that they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formula.exact.arithmetic import Arithmetic, Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import Node, Trace, trace
from oracles.lazy import lazy
from oracles.op import Op
from oracles.problem import Arrangement
from oracles.ranks import at

Arrays = Mapping[str, NDArray[Any]]


class Evaluated:
    """The outputs of an op's formula in float64, in the shapes that kernels return."""

    def __init__(
        self, op: Op, arrays: Arrays, arithmetic: Arithmetic | None = None,
        of: Callable[[Any], NDArray[Any]] = np.asarray, graph: Trace | None = None,
    ) -> None:  # fmt: skip
        """Evaluate the formula, or another `graph` of the op. `of` turns values of the arithmetic into arrays."""
        self.arrangement = Arrangement(
            op, {name: each.shape for name, each in arrays.items()}, arrays[op.main].ndim - 1
        )
        self.graph = graph or trace(op.formula, {each.name: each.axes for each in op.inputs})
        tensors = {name: self.arrangement.collapsed(name, array) for name, array in arrays.items()}
        self.op, self.inputs = op, Inputs(self.graph, tensors, {})
        self._found, self._of = evaluate(self.inputs, arithmetic or Float64()), of

    @lazy
    def outputs(self) -> Arrays:
        """Return all outputs by name."""
        return {name: self._returned(name, self._of(self._found[node])) for name, node in self.graph.outputs.items()}

    def _returned(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        return self.arrangement.returned(name, np.asarray(values, dtype=np.float64), self.inputs.extents)

    def comparable(self, name: str, theirs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return an output of the formula and that of the reference, as arrays to compare. Places are replaced by the
        elements that they hold, since any of equal ones is right. Any integer equals NaN."""
        mine, node = self.outputs[name], self.graph.outputs[name]
        if node.kind == "place":
            repeats = np.inf if self._repeats(name, node, theirs) else 0.0
            return self._elements(name, node, mine), self._elements(name, node, theirs) + repeats
        return mine, np.where(np.isnan(mine), mine, theirs) if self.op.operand(name).integers else theirs

    def _elements(self, name: str, node: Node, values: NDArray[Any]) -> NDArray[Any]:
        places = self._full(name, node, values)
        table = np.asarray(self._found[node.args[0]], dtype=np.float64)
        axis = self.graph.dims.index(node.label)
        known = (places >= 0) & (places < table.shape[axis]) & (places == np.floor(places))
        if not table.shape[axis]:
            return values
        there = at(table, np.where(known, places, 0.0).astype(np.int64), axis)
        return self._returned(name, np.where(known, there, np.inf))

    def _full(self, name: str, node: Node, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of an output with an axis for each dimension of the formula."""
        arranged = self.arrangement.arranged(name, values, self.graph.dims)
        own = {*self.op.operand(name).axes}
        return arranged.reshape([self.inputs.extents[dim] if dim in own else 1 for dim in self.graph.dims])

    def _repeats(self, name: str, node: Node, values: NDArray[Any]) -> bool:
        """Whether some place occurs twice along the ranks."""
        places = self._full(name, node, values)
        over = [self.graph.dims.index(dim) for dim in self.graph.dims if dim in node.args[1].dims]
        return any((np.diff(np.sort(places, axis=axis), axis=axis) == 0).any() for axis in over)
