"""The terms of one element's budget, and facts about its row, by the names of the formula's locals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracles.breakdown import ShownNumber, digits
from oracles.budget import CONFIDENCE, Term, sum_budget
from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format, form
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.errors import more
from oracles.formula.affine.forms import Form
from oracles.formula.affine.read import ReadFormula
from oracles.formula.contract import Contract
from oracles.formula.trace import REDUCTIONS, Node, Trace, ordered
from oracles.lazy import lazy
from oracles.rounding import NAMES, bits
from oracles.summation import is_biased
from oracles.tiers.conformance import Conformance

_LEAST = 1e-6
"""The share of the largest term below which terms are left out."""


@dataclass(frozen=True)
class Alone(Budget):
    """The forms of kernels that round only at some nodes and calculate all others exactly."""

    whole: Budget | None = None
    rounding: frozenset[Node] = frozenset()

    @lazy
    def _quiet(self) -> Budget:
        exact = Contract(DOUBLE.name, sums=self.contract.sums, fused=self.contract.fused)
        return Budget(self.inputs, exact, self.structured)

    def _form(self, read: ReadFormula, node: Node) -> Form:
        return self._rounding_too(node, self._quiet._form(self._left(read, node), node), last=False)

    def _unrounded(self, read: ReadFormula, node: Node) -> Form:
        return self._rounding_too(node, self._quiet._unrounded(self._left(read, node), node), last=True)

    def _rounding_too(self, node: Node, carried: Form, *, last: bool) -> Form:
        assert self.whole is not None
        if node not in self.rounding or (node, None) in self.whole.read.held or self._is_passed(node):
            return carried
        forms = self.whole.forms
        if node.kind == "point":
            if (point := self.whole.pointed(node)) is None or point.always:
                return carried
            own = self.whole._form(ReadFormula({arg: _exactly(forms[arg]) for arg in node.args}), node)
            return more(carried, own.spread) if own.spread.any() else carried
        exact = ReadFormula({each: _exactly(forms[each]) for each in ordered(node.args)})
        own = self.whole.operated(exact, node, last=last)
        return more(carried, own.spread) if own.spread.any() else carried

    def _is_passed(self, node: Node) -> bool:
        """Whether a node is an inner addition of a chain whose terms may be added in any order. The last addition of
        the chain stands for the errors of all its additions."""
        assert self.whole is not None
        outputs = self.inputs.trace.outputs.values()
        return node in self.whole.within and len(self.inputs.trace.uses[node]) == 1 and node not in outputs

    def _left(self, read: ReadFormula, node: Node) -> ReadFormula:
        """Return the arguments of a node. Where rounding gives all kernels the same number, or neighbouring ones, an
        argument keeps only the share of its errors that the rounding leaves."""
        assert self.whole is not None
        places = [place for place in range(len(node.args)) if (node, place) in self.whole.read.held]
        if not places:
            return read
        found = ReadFormula(dict(read.forms))
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
        return form if node in self.rounding else _exactly(form)


def terms_of(conformance: Conformance, output: str, index: Sequence[int]) -> tuple[Term, ...]:
    """Return, to first order, the part of an element's half-width that comes from the roundings of each local."""
    element = Element(conformance, output, tuple(index))
    whole = conformance.budget
    nothing = element.share(element.rounding(frozenset()))
    found = list[Term]()
    for name, nodes in _groups(whole.inputs.trace, output).items():
        alone = element.rounding(frozenset(nodes))
        value = max(element.share(alone) - nothing, 0.0)
        if value:
            local = next((node for node in nodes if whole.inputs.trace.names.get(node) == name), nodes[-1])
            product, made = element.product(name, local, alone, value), element.words(nodes, whole.dtype(local))
            found.append(Term(name, f"{product}: {made}", value))
    largest = max((term.value for term in found), default=0.0)
    return tuple(term for term in found if term.value > _LEAST * largest)


@dataclass(frozen=True)
class Element:
    """One element of an output whose budget is printed."""

    conformance: Conformance
    output: str
    index: tuple[int, ...]

    @property
    def whole(self) -> Budget:
        """The budget with all roundings."""
        return self.conformance.budget

    def rounding(self, nodes: frozenset[Node]) -> Alone:
        """Return the budget of kernels that round only at these nodes."""
        whole = self.whole
        endless = whole.endless
        return Alone(whole.inputs, whole.contract, whole.structured, endless=endless, whole=whole, rounding=nodes)

    def share(self, alone: Alone) -> float:
        """Return the element's half-width under a budget."""
        with np.errstate(all="ignore"):
            kept = alone.output(self.output, self.conformance.outputs[self.output])
        return float(self.conformance.shaped(self.output, kept.spread)[self.index])

    def product(self, name: str, local: Node, alone: Alone, value: float) -> str:
        """Return a term's value as text with its factors, so that it can be checked by hand: the roundings of the local
        in its unit roundoff u, the local itself, and the slope of the output in the local. An example is '66 u x
        |mean_square| 0.84 x 0.018'. If several elements of the local go in, one number replaces the last two."""
        u = self.whole.dtype(local).u
        size, spread = (
            self._largest(np.abs(values)) for values in (self.whole.forms[local].centre, alone.forms[local].spread)
        )
        if local is self.whole.made(self.output, self.conformance.outputs[self.output]):
            spread = value  # the last rounding is the output's own
        if not 0 < size < np.inf or not 0 < spread < np.inf:
            return f"{value / u:.4g} u"
        if self._added(local):
            share = self._relative(self.whole.forms[local].centre, alone.forms[local].spread) / u
            return f"{share:.4g} u x {value / (share * u):.4g}"
        moved = f" x {value / spread:.4g}" if spread != value else ""
        return f"{spread / size / u:.4g} u x |{name}| {size:.4g}{moved}"

    def words(self, nodes: Sequence[Node], unit: Format) -> str:
        """Return text such as 'subtract 1 u, sum over n 64 u (h = 64, worst case) in f32, u = 2^-24', where u is that
        of `unit`."""
        budget = self.whole
        kept = [node for node in nodes if node.kind == "point" and budget.pointed(node) is None]
        kinds = Counter(self._operation(node, unit.u) for node in nodes if node not in kept)
        said = ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items())
        dtypes = dict.fromkeys(budget.dtype(node).name for node in nodes if node.args)
        return f"{said}{' in ' if dtypes else ''}{' and '.join(dtypes)}, u = 2^{round(np.log2(unit.u))}"

    def _operation(self, node: Node, u: float) -> str:
        budget = self.whole
        if not node.args:
            return "the given values"
        over = f" over {' and '.join(node.over)}" if node.kind in REDUCTIONS else ""
        said = f"{node.operation}{over}{self._own(node, u)}"
        if node.kind not in ("sum", "dot"):
            return said
        order = budget.order(node)
        chain = order.chain(budget.inputs.number(node))
        statistical = sum_budget(budget.dtype(node), chain, budget.structured or is_biased(order))[2]
        kind = f"at most statistical, lambda = {CONFIDENCE:g}" if statistical else "worst case"
        return f"{said} (h = {chain}, {kind})"

    def _own(self, node: Node, u: float) -> str:
        """Return the rounding error of one operation as text, such as ' 1 u'."""
        budget = self.whole
        if node.kind == "point":
            point = budget.pointed(node)
            return "" if point is None or point.always else f" or not, to {point.dtype.name}"
        read = ReadFormula({each: _exactly(budget.forms[each]) for each in ordered(node.args)})
        with np.errstate(all="ignore"):
            own = budget.operated(read, node)
        share = self._relative(own.centre, own.spread) / u
        return f" {share:.4g} u" if share else ""

    def _added(self, node: Node) -> list[str]:
        """Return the dimensions along which several elements of a node go into one element of the output."""
        trace = self.whole.inputs.trace
        waiting, seen = [*trace.uses.get(node, ())], set[Node]()
        while waiting:
            use = waiting.pop()
            if use not in seen:
                seen.add(use)
                waiting += trace.uses.get(use, ())
        reduced = [each for each in ordered([trace.outputs[self.output]]) if each in seen and each.kind in REDUCTIONS]
        over = {dim for each in reduced for dim in each.over}
        return [dim for dim in trace.dims if dim in over & node.dims]

    def _relative(self, centre: F64, spread: F64) -> float:
        """Return the largest relative error of values."""
        with np.errstate(all="ignore"):
            share = np.where(np.isfinite(centre) & (centre != 0), spread / np.abs(centre), 0.0)
        return self._largest(share)

    def _largest(self, values: F64) -> float:
        """Return the largest of the values on which the element depends."""
        return float(np.max(self._of(values), initial=0.0))

    def _of(self, values: F64, over: Collection[str] = ()) -> F64:
        """Return the values on which the element depends: all along dimensions that it lacks, and along `over`."""
        inputs = self.whole.inputs
        at = tuple(slice(None) if dim in over else self._places.get(dim, slice(None)) for dim in inputs.trace.dims)
        return np.broadcast_to(values, tuple(inputs.extents[dim] for dim in inputs.trace.dims))[at]

    @lazy
    def _places(self) -> Mapping[str, int]:
        """Return the place of the element along each of its dimensions."""
        return self.conformance.place(self.output, self.index)

    def given(self) -> Iterator[tuple[str, str]]:
        """Yield, for each operand, the elements from which the element was calculated, as text: that at its place,
        '0.25 (0x3e800000)', and the range of those that are added up, 'from -3.2 to 5.1 along n'."""
        inputs = self.whole.inputs
        made_of = {*ordered([inputs.trace.outputs[self.output]])}
        for node in (each for each in inputs.trace.nodes if each in made_of and each.kind == "tensor"):
            values, stored = inputs.leaf(node), inputs.tensors[node.label].dtype
            said = []
            if node.dims <= self.conformance.axes(self.output):
                own = float(
                    values[tuple(self._places.get(dim, 0) if dim in node.dims else 0 for dim in inputs.trace.dims)]
                )
                number = ShownNumber(own, bits(own, form(NAMES.get(stored, DOUBLE.name))))
                said.append(str(int(own)) if stored.kind in "biu" else str(number))
            if over := self._added(node):
                said.append(_span(self._of(values, over), " and ".join(over)))
            yield node.label, "; ".join(said)


def given_of(conformance: Conformance, output: str, index: Sequence[int]) -> tuple[tuple[str, str], ...]:
    """Return the operands' elements from which an element is calculated, as pairs of an operand's name and text."""
    return tuple(Element(conformance, output, tuple(index)).given())


def _span(values: F64, over: str) -> str:
    numbers = values[~np.isnan(values)]
    found = f"from {numbers.min():g} to {numbers.max():g}" if numbers.size else "no number"
    return f"{found}{', and NaN' if 0 < numbers.size < values.size else ''} along {over}"


def _exactly(form: Form) -> Form:
    """Return the form without its errors."""
    return Form(form.centre, form.dtype, form.bits)


def _groups(trace: Trace, output: str) -> Mapping[str, list[Node]]:
    """Return the nodes by the local that they are calculated for: their own, or that of their first use."""
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


def facts_of(conformance: Conformance, place: Mapping[str, int], dims: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of name and text: exact values, at a place, of locals that lack some of the dimensions `dims`."""
    assert conformance.exact is not None
    trace = conformance.exact.inputs.trace
    found = list[tuple[str, str]]()
    for node in trace.nodes:
        name = trace.names.get(node, "")
        is_mean = all(use.kind == "divide" and use.args[1].kind == "extent" for use in trace.uses[node])
        if node.kind in REDUCTIONS and not name and not is_mean and (of := trace.names.get(node.args[0], "")):
            name = f"{node.kind} of {of}"
        if name and node.args and node.dims <= {*place} and node.dims < {*dims}:
            at = {dim: index for dim, index in place.items() if dim in node.dims}
            found.append((f"{name}, exact", digits(conformance.exact.element(node, at))))
    return tuple(found)
