"""Prepared formulas: the graphs of an op's formula, made once for all problems with the same operands; and keys of
those whose tensors hold finite numbers: formulas that differ only for infinities have the same key."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from functools import lru_cache

from oracles.algorithm import traced
from oracles.formula.contract import Contract
from oracles.formula.exact.counts import counted
from oracles.formula.exact.lengths import BESIDE
from oracles.formula.node import COMPARED, SELECTS, Kind, Node, ordered
from oracles.formula.trace import REDUCTIONS, FormulaError, Trace
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import OUTER
from oracles.problem import ProblemError
from oracles.tiers.plan import FormulaPlan

_KEEPING: Collection[Kind] = "tensor", "max", "negate"
"""Operations whose result is an element of an operand, or its negative."""


def of_numbers(graph: Trace) -> Hashable:
    """Return a key that is equal for two formulas if they calculate the same values in the same way, under the same
    names, as long as all tensors have elements and all elements are finite."""
    taken, known, numbers = dict[Node, Node](), dict[Hashable, Node](), set[Node]()
    for node in ordered([*graph.outputs.values(), *graph.locals.values()]):
        made = _decided(node.made_of(taken), numbers)
        # Two nodes that do the same are one node, unless they may be rounded differently.
        if made.kind != "point" and (made.is_exact or not made.args):
            same = made.kind, made.label, made.value.hex(), made.low.hex(), made.count, made.dims, made.args
            made = known.setdefault(same, made)
        taken[node] = made
        if made.kind in _KEEPING and all(arg in numbers for arg in made.args):
            numbers.add(made)
    called = {name: taken[node] for name, node in graph.locals.items()}
    outputs = {name: taken[node] for name, node in graph.outputs.items()}
    found = replace(graph, outputs=outputs, locals=called)
    return found.digest, tuple(found.names.get(node) for node in found.nodes)


def _decided(node: Node, numbers: Collection[Node]) -> Node:
    """Return the branch that `where` chooses, if it only asks whether a finite number is infinite; else the node."""
    if node.kind != "where" or node.args[0].kind not in COMPARED:
        return node
    mask, *chosen = node.args
    bounds = [each.value for each in mask.args if each.kind == "constant" and math.isinf(each.value)]
    if len(bounds) != 1 or not any(each in numbers for each in mask.args):
        return node
    left, right = (each.value if each.kind == "constant" else 0.0 for each in mask.args)
    found = chosen[0 if left < right else 1]  # one of the two is infinite
    return found if found.dims == node.dims else node


_SCALED: tuple[Kind, ...] = ("welford_mean", "welford_squares", "online", "online_dot")
"""Kinds of nodes for which the order of a sum also decides how often the sum is rescaled or updated."""
_COUNTS: tuple[Kind, ...] = ("extent", "position")


@dataclass(frozen=True)
class PreparedFormula:
    """The graph of an op's formula, and facts about it that hold for all problems with the same operands."""

    trace: Trace
    separate: bool
    """Whether rows are independent, so that each is evaluated by itself."""

    @lazy
    def plans(self) -> dict[Hashable, dict[Contract, FormulaPlan | None]]:
        """Return the cache of plans, by contract. The outer key holds everything else on which plans depend."""
        return {}

    @lazy
    def of_numbers(self) -> Hashable:
        """Return a key that is equal for formulas that calculate the same if all elements of tensors are finite."""
        return of_numbers(self.trace)

    @lazy
    def points(self) -> frozenset[str]:
        """Return the names of the points at which kernels may round."""
        return frozenset(self.trace.names[node.args[0]] for node in self.trace.nodes if node.kind == "point")

    @lazy
    def joins_lengths(self) -> bool:
        """Whether rows or problems may be filled up and joined with others. Their parameters then are columns, with one
        element for each."""
        fit = not self.separate or (self.trace.dims[:1] == (OUTER,) and len(self.trace.dims) == 2)
        return fit and self.joins_orders and not self.selects

    @lazy
    def reduced(self) -> frozenset[str]:
        """Return the dimensions along which the formula has reductions."""
        return frozenset(dim for node in self.trace.nodes if node.kind in REDUCTIONS for dim in node.over)

    @lazy
    def grids(self) -> frozenset[frozenset[str]]:
        """Return the sets of dimensions of the largest arrays, including the terms of sums."""
        every = {
            each.dims.union(*(arg.dims for arg in each.args)) if each.kind in REDUCTIONS else each.dims
            for each in self.trace.nodes
        }
        return frozenset(dims for dims in every if not any(dims < other for other in every))

    @lazy
    def selects(self) -> bool:
        """Whether the formula selects elements by order, which no screen can judge."""
        return any(node.kind in SELECTS for node in self.trace.nodes)

    @lazy
    def calculates_with(self) -> frozenset[str]:
        """Return the dimensions for which the number of significant bits of extents and places matters: all except
        those whose extents and places are only counted, compared, used to choose, or divided by."""
        known, found = counted(self.trace, ()), set[str]()
        for node in self.trace.nodes:
            for place, arg in enumerate(node.args if node not in known and node.kind not in COMPARED else ()):
                only_chosen = (node.kind, place) in (("take", 1), ("where", 0))
                divides = arg.kind == "extent" and (node.kind, place) == ("divide", 1)
                if not (only_chosen or divides) and (arg.kind in _COUNTS or arg in known):
                    found.update(dim for each in ordered([arg]) if each.kind in _COUNTS for dim in each.over)
        return frozenset(found)

    @lazy
    def depends_on(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the parameters for which it matters whether they are zero, and the parameters for which it matters how
        many significant bits they have. Neither matters for a parameter that is only added to a calculated value."""
        zeros, bits = set[str](), set[str]()
        for node in self.trace.nodes:
            uses = self.trace.uses[node] if node.kind == "parameter" else ()
            if any(use.kind not in ("add", "subtract") for use in uses):
                bits.add(node.label)
            if any(not any(arg.args for arg in use.args) for use in uses):
                zeros.add(node.label)
        return frozenset(zeros), frozenset(bits)

    @lazy
    def joins_orders(self) -> bool:
        """Whether only the longest chain of an order matters, so that rows with other orders may be joined."""
        return {node.kind for node in self.trace.nodes}.isdisjoint(_SCALED)


@lru_cache(maxsize=1024)
def prepared(
    op: Op,
    present: frozenset[str],
    stacked: frozenset[str],
    algorithm: tuple[tuple[str, str], ...],
    beside: bool = False,
) -> PreparedFormula:
    """Return the prepared formula for the present operands and parameters, for stacked problems if `beside`.
    Raises ProblemError if they do not fit the op."""
    try:
        found = traced(op, present, dict(algorithm), stacked, beside=beside)
        if algorithm and _is_separate(op, found) != _is_separate(op, traced(op, present, None, stacked)):
            raise FormulaError(f"{op.name}: an algorithm cannot take other rows where the formula does not")
        separate, columns = _is_separate(op, found), op.columns & present
        if separate and columns - stacked and not beside:
            found = traced(op, present, dict(algorithm), columns)
    except FormulaError as error:
        raise ProblemError(f"op: {error}") from error
    for name, node in found.outputs.items():
        if more := node.dims - {*op.operand(name).axes, BESIDE}:
            raise ProblemError(f"op: {op.name}: its formula gives {name} the dimensions {', '.join(sorted(more))} too")
    return PreparedFormula(found, separate)


def _is_separate(op: Op, graph: Trace) -> bool:
    """Whether all tensors and outputs of the op have rows, each of which can be evaluated by itself."""
    of_rows = (
        op.any_axis
        and not op.further
        and all(OUTER in op.operand(name).axes or name in op.columns for name in graph.tensors)
        and all(OUTER in op.operand(name).axes for name in graph.outputs)
    )
    return of_rows and OUTER not in graph.meeting and not any(node.kind == "place" for node in graph.nodes)
