"""A dimension of an op, with the properties that follow from the formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracles.formula.made import Counts
from oracles.formula.trace import REDUCTIONS, Trace, trace
from oracles.operand import Operand, Parameter


@dataclass(frozen=True)
class OpDim:
    """One named dimension of an op, or all unnamed dimensions together, "..."."""

    name: str
    batched: frozenset[str]
    """The outputs whose slices along the dimension depend only on the same slices of the inputs, and on inputs that
    lack the dimension. So slices may come in any order and number."""
    meets: bool
    """Whether some output combines values along the dimension, by a sum for example, or depends on their places."""
    reduced: bool
    """Whether the formula has a reduction along the dimension, such as a sum or a maximum."""


def dims_of(
    formula: Callable[..., Mapping[str, Any]],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    parameters: Sequence[Parameter],
) -> Mapping[str, OpDim]:
    """Return every dimension of an op by its name, over all combinations of optional tensors."""
    meeting, reduced = dict[str, set[str]](), set[str]()
    for graph in graphs_of(formula, inputs, parameters):
        reduced |= {dim for node in graph.nodes if node.kind in REDUCTIONS for dim in node.over}
        for name, node in graph.outputs.items():
            meeting.setdefault(name, set()).update(replace(graph, outputs={name: node}).meeting)
    found = dict[str, OpDim]()
    for dim in dict.fromkeys(dim for each in (*inputs, *outputs) for dim in each.axes):
        alone = (each.name for each in outputs if dim in each.axes and dim not in meeting[each.name])
        found[dim] = OpDim(dim, frozenset(alone), any(dim in each for each in meeting.values()), dim in reduced)
    return found


def counts_of(
    formula: Callable[..., Mapping[str, Any]], inputs: Sequence[Operand], parameters: Sequence[Parameter]
) -> Counts:
    """Return the dimensions whose extents the formula states, with the expressions of these extents."""
    return trace(formula, {each.name: each.axes for each in inputs}, [each.name for each in parameters]).counts


def steps_of(
    formula: Callable[..., Mapping[str, Any]],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    parameters: Sequence[Parameter],
) -> tuple[frozenset[str], ...]:
    """Return the sets of dimensions of the formula's steps, without sets that are part of a larger set. The set of a
    sum includes the dimension that is summed over."""
    found = {frozenset(each.axes) for each in (*inputs, *outputs)}
    for node in (node for graph in graphs_of(formula, inputs, parameters) for node in graph.nodes):
        # A `take` makes no product of the table and the index.
        found.add(node.dims.union(*(arg.dims for arg in node.args if node.kind != "take")))
    return tuple(sorted((each for each in found if not any(each < other for other in found)), key=sorted))


def graphs_of(
    formula: Callable[..., Mapping[str, Any]], inputs: Sequence[Operand], parameters: Sequence[Parameter]
) -> Iterator[Trace]:
    """Yield the graph for all inputs and parameters, then the graph for the required ones alone."""
    for whole in (True, False):
        given = {each.name: each.axes for each in inputs if whole or not each.optional}
        yield trace(formula, given, [each.name for each in parameters if whole or each.neutral is None])
