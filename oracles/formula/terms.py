"""The budget of one element in terms, and the facts of its row, by the names of the formula's own locals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracles.breakdown import digits
from oracles.budget import CONFIDENCE, Term, sum_budget
from oracles.formula.budget import Budget, Read
from oracles.formula.conformance import Conformance
from oracles.formula.contract import Contract
from oracles.formula.errors import more
from oracles.formula.forms import Form
from oracles.formula.trace import REDUCTIONS, Node, Trace
from oracles.lazy import lazy
from oracles.op import OUTER

_LEAST = 1e-6
"""Terms that are a smaller share of the largest one are left out."""


@dataclass(frozen=True)
class Alone(Budget):
    """The forms of kernels that round at some nodes alone: all else they calculate in float64."""

    whole: Budget | None = None
    rounding: frozenset[Node] = frozenset()

    @lazy
    def _quiet(self) -> Budget:
        return Budget(self.inputs, Contract("f64", sums=self.contract.sums, fused=self.contract.fused), self.structured)

    def _form(self, read: Read, node: Node) -> Form:
        return self._rounding_too(node, self._quiet._form(self._left(read, node), node), last=False)

    def _unrounded(self, read: Read, node: Node) -> Form:
        return self._rounding_too(node, self._quiet._unrounded(self._left(read, node), node), last=True)

    def _rounding_too(self, node: Node, carried: Form, *, last: bool) -> Form:
        assert self.whole is not None
        if node not in self.rounding or node.kind == "point" or (node, None) in self.whole.read.held:
            return carried
        forms = self.whole.forms
        exact = Read({arg: Form(forms[arg].centre, forms[arg].dtype, forms[arg].bits) for arg in node.args})
        own = self.whole._step(node, self.whole._taken(exact, node), last=last)
        return more(carried, own.spread)

    def _left(self, read: Read, node: Node) -> Read:
        """What a node takes: where all kernels' values lie between numbers of a dtype, that share of the errors which
        this leaves of all of them."""
        assert self.whole is not None
        places = [place for place in range(len(node.args)) if (node, place) in self.whole.read.held]
        if not places:
            return read
        found = Read(dict(read.forms))
        for place in places:
            before = self.whole.forms[node.args[place]].spread
            after = self.whole.forms[node] if node.kind == "point" else self.whole._taken(self.whole.read, node)[place]
            held = ~np.isnan(self.whole.read.held[node, place])
            share = np.where(held & (before > 0), after.spread / np.where(before > 0, before, 1.0), 1.0)
            form = read.forms[node.args[place]]
            parts = {symbol: each * share for symbol, each in form.parts.items()}
            rest = None if form.rest is None else form.rest * share
            found.forms[node.args[place]] = replace(form, parts=parts, rest=rest)
        return found

    def _leaf(self, node: Node) -> Form:
        form = Budget._leaf(self, node)
        return form if node in self.rounding else Form(form.centre, form.dtype, form.bits)


def terms_of(conformance: Conformance, output: str, index: Sequence[int]) -> tuple[Term, ...]:
    """What the roundings that make each local add to the half-width of an element, to first order."""
    whole = conformance.budget
    groups = _groups(whole.inputs.trace, output)

    def share(nodes: frozenset[Node]) -> float:
        alone = Alone(whole.inputs, whole.contract, whole.structured, whole=whole, rounding=nodes)
        with np.errstate(all="ignore"):
            kept = alone.output(output, conformance.outputs[output])
        return float(conformance.shaped(output, kept.spread)[tuple(index)])

    nothing = share(frozenset())
    found = [
        Term(name, _words(whole, name, nodes), max(share(frozenset(nodes)) - nothing, 0.0))
        for name, nodes in groups.items()
    ]
    largest = max((term.value for term in found), default=0.0)
    return tuple(term for term in found if term.value > _LEAST * largest)


def _groups(trace: Trace, output: str) -> Mapping[str, list[Node]]:
    """The nodes by the local that they are made for: their own name, or that of what they are used for first."""
    names = dict[Node, str]()
    for node in reversed(trace.nodes):
        uses = [names[use] for use in trace.uses.get(node, ()) if use in names]
        own = "" if trace.outputs.get(output) is not node else output
        names[node] = trace.names.get(node, "") or own or (uses[0] if uses else output)
    found: dict[str, list[Node]] = {}
    for node in trace.nodes:
        if node.args or node.kind == "tensor":
            found.setdefault(names[node], []).append(node)
    return found


def _words(budget: Budget, name: str, nodes: Sequence[Node]) -> str:
    """For example 'subtract and sum over n (h = 64, worst case) in f32'."""
    kept = [
        node for node in nodes if node.kind == "point" and budget.contract.points.get(budget.name(node.args[0])) is None
    ]
    kinds = Counter(_operation(budget, node) for node in nodes if node not in kept)
    said = ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items())
    dtypes = dict.fromkeys(budget.dtype(node).name for node in nodes if node.args)
    return f"{said} in {' and '.join(dtypes)}" if dtypes else said


def _operation(budget: Budget, node: Node) -> str:
    if not node.args:
        return "the given values"
    if node.kind not in ("sum", "dot"):
        return node.kind if node.kind not in REDUCTIONS else f"{node.kind} over {node.label}"
    n = budget.inputs.extents[node.label]
    chain = budget.order(node).chain(n)
    statistical = sum_budget(budget.dtype(node), chain, budget.structured)[2]
    kind = f"at most statistical, lambda = {CONFIDENCE:g}" if statistical else "worst case"
    return f"{node.kind} over {node.label} (h = {chain}, {kind})"


def facts_of(conformance: Conformance, row: int) -> tuple[tuple[str, str], ...]:
    """The exact values of what a row has one of, by the names of the formula."""
    assert conformance.exact is not None
    trace = conformance.exact.inputs.trace
    found = list[tuple[str, str]]()
    for node in trace.nodes:
        name = trace.names.get(node, "")
        is_mean = all(use.kind == "divide" and use.args[1].kind == "extent" for use in trace.uses[node])
        if node.kind in REDUCTIONS and not name and not is_mean and (of := trace.names.get(node.args[0], "")):
            name = f"{node.kind} of {of}"
        if name and node.args and node.dims <= {OUTER}:
            place = {OUTER: row}
            found.append((f"{name}, exact", digits(conformance.exact.element(node, place))))
    return tuple(found)
