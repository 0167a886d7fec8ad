"""What an input's values can follow from: the other inputs, and what the op's own formula makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fuzz.base.stream import Reals
from oracles.formula.arithmetic import Float64
from oracles.formula.centre import Inputs, evaluate
from oracles.formula.trace import REDUCTIONS, FormulaError, Trace, trace
from oracles.op import OUTER, Op, Operand, OpError

LOCAL = "local"
"""The menu of an input that is also a local of its op's formula: the formula finds it where it is not given."""


@dataclass(frozen=True)
class Scene:
    """The inputs of a case that are there already, as float64: (rows, n) of a grid and of what is stacked, (n,) of
    other columns, (rows,) of rows."""

    op: Op
    name: str
    """The input whose values are drawn."""
    values: Mapping[str, Reals]
    parameters: Mapping[str, float]
    given: frozenset[str]
    """All inputs of the case, the ones that are not there yet too."""
    stacked: frozenset[str]
    rows: int
    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the values to be drawn."""
        return {"grid": (self.rows, self.n), "columns": (self.n,), "rows": (self.rows,)}[self.op.role(self.name)]

    def local(self, name: str) -> Reals:
        """What the formula finds for one of its locals where it is given no input that is a local too.

        The same bits on every machine. Raises OpError where it has no such local.
        """
        graph = graph_of(self.op, self.given, self.stacked, name)
        powers = self.op.scaling if graph.by_rows else {}
        up = self._exponents if graph.by_rows else np.zeros(self.rows, np.int64)
        tensors = {each: self._scaled(each, up, powers) for each in graph.trace.tensors if each in self.values}
        for each in self.op.parameters if graph.by_rows else ():
            tensors[each.name] = np.ldexp(self.parameters[each.name], -each.power * up)
        (node,) = graph.trace.outputs.values()
        inputs = Inputs(graph.trace, {each: tensors[each] for each in graph.trace.tensors}, self.parameters)
        found = evaluate(inputs, _IN_ORDER)[node]
        found = found.reshape(
            [size for size, dim in zip(found.shape, graph.trace.dims, strict=True) if dim in node.dims]
        )
        if powers.get(name):
            exponents = powers[name] * up
            found = np.ldexp(found, exponents if found.ndim == 1 else exponents[:, None])
        return np.where(np.isnan(found), np.nan, found)  # machines differ in the sign of a NaN that they make

    def _scaled(self, name: str, up: NDArray[np.int64], powers: Mapping[str, int]) -> Reals:
        values, power = self.values[name], powers.get(name, 0)
        if not power:
            return values
        exponents = -power * up
        scaled: Reals = np.ldexp(values, exponents[:, None] if values.ndim == 2 else exponents)
        return scaled

    @property
    def _exponents(self) -> NDArray[np.int64]:
        """Powers of two by which rows are divided, so that neither their squares nor what is added to them overflow, or
        underflow where they matter."""
        with np.errstate(all="ignore"):
            largest = np.max(np.abs(self.values[self.op.main]), axis=1, initial=0.0)
            _, exponents = np.frexp(np.where(np.isfinite(largest), largest, 1.0))
        least = [
            -(-int(np.frexp(self.parameters[each.name])[1]) // each.power)
            for each in self.op.parameters
            if each.power > 0 and self.parameters[each.name]
        ]
        found = exponents.astype(np.int64)
        found[largest == 0.0] = min(least, default=0)
        return np.maximum(found, max(least)) if least else found


@dataclass(frozen=True)
class Graph:
    """What a local is made of."""

    trace: Trace
    """Its only output is the local."""
    by_rows: bool
    """Rows may be scaled, each by a power of two of its own, as the op says; then parameters are tensors of rows."""


@lru_cache(maxsize=256)
def graph_of(op: Op, given: frozenset[str], stacked: frozenset[str], name: str) -> Graph:
    """What a local is made of in a case of these inputs. Raises OpError where the formula has no such local."""
    tensors = {
        each.name: op.inputs[0].axes if each.name in stacked else each.axes
        for each in op.inputs
        if each.name in given and not is_local(each)
    }
    numbers = [each.name for each in op.parameters]
    plain = _traced(op, tensors, numbers, name)
    scaled = {each: axes for each, axes in plain.tensors.items() if op.scaling.get(each)}
    (node,) = plain.outputs.values()
    by_rows = (
        any(each.name == name for each in op.inputs)
        and op.scaling.get(op.main) == 1
        and OUTER in node.dims
        and all(OUTER in axes for axes in scaled.values())
        and not any(each.kind in REDUCTIONS and each.label == OUTER for each in plain.nodes)
    )
    if not by_rows:
        return Graph(plain, by_rows=False)
    return Graph(_traced(op, {**tensors, **dict.fromkeys(numbers, (OUTER,))}, [], name), by_rows=True)


def is_local(operand: Operand) -> bool:
    """Whether the formula finds the input itself where it is not given."""
    return operand.values.split()[:1] == [LOCAL]


def _traced(op: Op, tensors: Mapping[str, tuple[str, ...]], numbers: list[str], name: str) -> Trace:
    """The part of the formula's graph that a local is made of."""
    try:
        whole = trace(op.formula, tensors, numbers)
        node = whole.named(name)
    except FormulaError as error:
        raise OpError(f"{op.name}: {name}: {error}; it must set it where {name} is None") from error
    part = Trace(whole.dims, {}, {name: node})
    used = {each.label for each in part.nodes if each.kind == "tensor"} | {op.main}
    return Trace(whole.dims, {each: axes for each, axes in whole.tensors.items() if each in used}, {name: node})


class _InOrder(Float64):
    """Sums strictly in order: that of NumPy's own differs between its versions and between processors."""

    def total(self, values: Reals, axis: int) -> Reals:
        last = np.add.accumulate(values, axis=axis).take([-1], axis) if values.shape[axis] else values
        found: Reals = last.sum(axis=axis, keepdims=True)
        return found


_IN_ORDER = _InOrder()
