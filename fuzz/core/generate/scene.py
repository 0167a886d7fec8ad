"""Values of inputs that depend on other inputs, and on what the op's own formula calculates from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.stream import Reals
from oracles.formula.exact.arithmetic import Float64, along
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.exact.contraction import Axes
from oracles.formula.trace import REDUCTIONS, FormulaError, Trace, trace
from oracles.lazy import lazy
from oracles.op import Extents, Op
from oracles.operand import OUTER, Operand, OpError

LOCAL = "local"
"""The menu of an input that is also a local of the op's formula: if the input is absent, the formula calculates it."""


@dataclass(frozen=True)
class Scene:
    """The inputs of a case whose values were drawn already, as float64. Each has an axis for each of its dimensions; a
    stacked input has shape (rows, n)."""

    op: Op
    values: Mapping[str, Reals]
    parameters: Mapping[str, float]
    given: frozenset[str]
    """The names of all inputs of the case, including those not drawn yet."""
    stacked: frozenset[str]
    wide: bool
    """Whether some input is f64, so that squares and products may leave the range of float64."""
    rows: int
    n: int
    extents: Extents = field(default_factory=dict)
    """The extents of all dimensions."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input's values."""
        return tuple(self.extents[dim] for dim in self.op.operand(name).axes)

    def span(self, name: str) -> tuple[int, int]:
        """Return the smallest and the largest number that an input of integers may have."""
        return self.op.operand(name).span(self.extents)

    def count(self, name: str) -> int:
        """Return the number of places that an input of integers may name along its dimension, or 2 for flags."""
        return self.span(name)[1] + 1

    def input(self, name: str) -> Reals:
        """Return the values that the formula calculates for an absent input, in the input's shape."""
        found, shape = self.local(name), self.shape(name)
        return found if found.shape == shape else np.broadcast_to(found, shape)

    def local(self, name: str) -> Reals:
        """Return the values that the formula calculates for one of its locals, unless an input gives that local. The
        bits are the same on every machine. Raise OpError if the formula has no such local."""
        if name not in self._locals:
            with np.errstate(all="ignore"):
                self._locals[name] = self._found(name)
        return self._locals[name]

    @lazy
    def _locals(self) -> dict[str, Reals]:
        return {}

    def _found(self, name: str) -> Reals:
        graph = graph_of(self.op, self.given, self.stacked, name)
        if graph.of_rows is None or not self.wide:
            tensors = {each: self.values[each] for each in graph.plain.tensors}
            found = _evaluated(graph.plain, tensors, self.parameters)
        else:
            up, powers = self._exponents, self.op.scaling
            tensors = {each.name: np.ldexp(self.parameters[each.name], -each.power * up) for each in self.op.parameters}
            for each in graph.plain.tensors:
                tensors[each] = _times(self.values[each], powers.get(each, 0), -up)
            tensors = {each: tensors[each] for each in graph.of_rows.tensors}
            found = _times(_evaluated(graph.of_rows, tensors, {}), powers.get(name, 0), up)
        return np.where(np.isnan(found), np.nan, found)  # machines differ in the signs of NaNs they make

    @property
    def _exponents(self) -> NDArray[np.int64]:
        """Powers of two to divide rows by, shape (rows,). They keep squares, and parameters that are added to squares,
        from overflowing, and from underflowing where that matters."""
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


def _evaluated(graph: Trace, tensors: Mapping[str, Reals], parameters: Mapping[str, float]) -> Reals:
    (node,) = graph.outputs.values()
    found = evaluate(Inputs(graph, tensors, parameters), _IN_ORDER)[node]
    axes = zip(found.shape, graph.dims, strict=True)
    flat: Reals = found.reshape([size for size, dim in axes if dim in node.dims])
    return flat


def _times(values: Reals, power: int, exponents: NDArray[np.int64]) -> Reals:
    """Return `values` times 2^(power * exponents), for rows or for one number per row."""
    if not power:
        return values
    exponents = power * exponents
    scaled: Reals = np.ldexp(values, exponents[:, None] if values.ndim == 2 else exponents)
    return scaled


@dataclass(frozen=True)
class Graph:
    """The part of a formula's graph from which a local is calculated."""

    plain: Trace
    """The graph whose only output is the local."""
    of_rows: Trace | None
    """The same graph with parameters that have one value for each row, for ops in which each row can be scaled by its
    own power of two. None for other ops."""


@lru_cache(maxsize=256)
def graph_of(op: Op, given: frozenset[str], stacked: frozenset[str], name: str) -> Graph:
    """Return the graph of a local in a case with these inputs. Raise OpError if the formula has no such local."""
    tensors = {
        each.name: op.inputs[0].axes if each.name in stacked else each.axes
        for each in op.inputs
        if each.name in given and not is_local(each)
    }
    numbers = [each.name for each in op.parameters]
    plain = _traced(op, tensors, numbers, name)
    scaled = {each: axes for each, axes in plain.tensors.items() if op.scaling.get(each)}
    (node,) = plain.outputs.values()
    may_scale = (
        op.any_axis
        and any(each.name == name for each in op.inputs)
        and op.scaling.get(op.main) == 1
        and OUTER in node.dims
        and all(OUTER in axes and len(axes) <= 2 for axes in scaled.values())
        and not any(each.kind in REDUCTIONS and OUTER in each.over for each in plain.nodes)
    )
    of_rows = {**tensors, **dict.fromkeys(numbers, (OUTER,))}
    return Graph(plain, _traced(op, of_rows, [], name) if may_scale else None)


def is_local(operand: Operand) -> bool:
    """Return whether the formula calculates the input if it is absent."""
    return operand.values.split()[:1] == [LOCAL]


def _traced(op: Op, tensors: Mapping[str, tuple[str, ...]], numbers: list[str], name: str) -> Trace:
    """Return the part of the formula's trace from which a local is calculated. Raise OpError if there is none."""
    try:
        whole = trace(op.formula, tensors, numbers)
        node = whole.named(name)
    except FormulaError as error:
        raise OpError(f"{op.name}: {name}: {error}; it must set it where {name} is None") from error
    part = replace(whole, tensors={}, outputs={name: node}, locals={})
    used = {each.label for each in part.nodes if each.kind == "tensor"} | {op.main}
    return replace(part, tensors={each: axes for each, axes in whole.tensors.items() if each in used})


class _InOrder(Float64):
    """Float64 arithmetic with sums strictly in order, since NumPy's order depends on its version and processor."""

    def total(self, values: Reals, axis: int) -> Reals:
        sums = np.add.accumulate(values, axis=axis)
        empty = not values.shape[axis]
        found: Reals = sums.sum(axis=axis, keepdims=True) if empty else sums[(slice(None),) * axis + (slice(-1, None),)]
        return found

    def dot(self, a: Reals, b: Reals, axes: Axes) -> Reals:
        found: Reals = along(self.total, a * b, axes)
        return found


_IN_ORDER = _InOrder()
