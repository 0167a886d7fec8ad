"""A dimension of an op, with what the formula implies for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracles.formula.made import Counts
from oracles.formula.trace import REDUCTIONS, Trace, trace
from oracles.operand import Operand, Parameter


@dataclass(frozen=True)
class OpDim:
    """One named dimension of an op, or all those without a name, "..."."""

    name: str
    batched: frozenset[str]
    """The outputs whose slices along it depend only on the same slices of the inputs, and on inputs without it: slices
    may come in any order and number."""
    meets: bool
    """Whether values meet along it somewhere: they are summed, say, or their places count."""
    reduced: bool
    """Whether the formula sums along it, or takes a maximum."""


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
    """Return the dimensions that the formula makes and no input has, with their extents."""
    return trace(formula, {each.name: each.axes for each in inputs}, [each.name for each in parameters]).counts


def steps_of(
    formula: Callable[..., Mapping[str, Any]],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    parameters: Sequence[Parameter],
) -> tuple[frozenset[str], ...]:
    """Return the sets of dimensions of the formula's steps, without those that are part of a larger set. The step of a
    sum includes the dimension that is summed over."""
    found = {frozenset(each.axes) for each in (*inputs, *outputs)}
    for node in (node for graph in graphs_of(formula, inputs, parameters) for node in graph.nodes):
        # To take from a table is no product with it.
        found.add(node.dims.union(*(arg.dims for arg in node.args if node.kind != "take")))
    return tuple(sorted((each for each in found if not any(each < other for other in found)), key=sorted))


def graphs_of(
    formula: Callable[..., Mapping[str, Any]], inputs: Sequence[Operand], parameters: Sequence[Parameter]
) -> Iterator[Trace]:
    """Yield the graph for all inputs, then the graph for the required ones alone."""
    for whole in (True, False):
        given = {each.name: each.axes for each in inputs if whole or not each.optional}
        yield trace(formula, given, [each.name for each in parameters if whole or each.neutral is None])
