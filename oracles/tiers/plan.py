"""Plans: facts about the values of a formula under a contract that hold for all inputs. A plan states which values are
equal in all kernels and to which dtypes they are rounded, the error of each operation relative to its result, and the
magnitudes between which this error holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.budget import sum_budget
from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, FORMATS, Format, form, judged
from oracles.formula.affine.forms import DUST
from oracles.formula.contract import Contract, RoundingPoint
from oracles.formula.exact.counts import counted
from oracles.formula.node import SELECTS
from oracles.formula.trace import Kind, Node, Trace, ordered
from oracles.lazy import lazy
from oracles.operand import OUTER
from oracles.summation import is_biased, is_short

ERROR, WORST, TINY, LIMIT, LAST, SINK = range(6)
"""Indices of the numbers of a node. ERROR: the relative error of its rounding, or of its sum. WORST: the error of the
sum in the worst case. TINY and LIMIT: the smallest and the largest magnitudes for which these errors hold. LAST: the
error that is left if its rounding is that of the output. SINK: how large its sink (`FormulaPlan.sinks`) must be where
the node is below TINY."""
ROOM = 4.0
"""The factor by which magnitudes must stay below overflow, and twice the factor by which they must stay above
underflow. No value of a kernel differs from the exact one by as much."""

_NOTHING = 2.0**56
"""The factor by which a value must be smaller than another one to be negligible in their sum."""


@dataclass(frozen=True)
class PlannedValue:
    """Facts about the value of a node that hold for all inputs."""

    dtype: Format
    bits: int
    exact: bool
    positive: bool
    """Whether the value is never negative, as long as parameters are not."""


Site = tuple[Node, int | None]
"""A node, and the index of one of its arguments; None stands for the node's own value."""


@dataclass(frozen=True, eq=False)
class FormulaPlan:
    """The facts that a formula and a settled contract imply for all inputs of the same dtypes."""

    trace: Trace
    contract: Contract
    structured: bool
    tensors: Mapping[str, str]
    """The dtypes of the inputs, by name."""
    outputs: Mapping[str, str]
    """The dtypes of the outputs, by name."""
    zeros: frozenset[str]
    """The names of parameters that are zero."""
    values: dict[Node, PlannedValue] = field(default_factory=dict)
    rounded: dict[Site, Format] = field(default_factory=dict)
    """The dtype, by site, of values that every kernel rounds to the same number, or that a point rounds."""
    same: dict[Node, Node] = field(default_factory=dict)
    """For each sum with an operand that is always zero, the other operand, which the sum equals."""
    apart: list[Node | None] = field(default_factory=list)
    """Nodes whose errors may not be in proportion to their values; None stands for the formula as a whole. A screen can
    judge only if the list is empty."""
    sums: dict[Node, Format] = field(default_factory=dict)
    """For each sum, the format in which it overflows."""
    _known: dict[int, F64] = field(default_factory=dict)

    @lazy
    def key(self) -> object:
        """Return a key that is equal for plans of one formula that give a problem the same centres."""
        dtypes = (*self.rounded.values(), *self.sums.values())
        return tuple(self.rounded), tuple(dtype.name for dtype in dtypes)

    @lazy
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that the outputs are made of, in an order that is the same for all sets of outputs."""
        made = {*ordered(self.made(output) for output in self.outputs)}
        return tuple(node for node in ordered((*self.trace.locals.values(), *made)) if node in made)

    @lazy
    def sinks(self) -> Mapping[Node, Node]:
        """Return the products, sums and quotients that are only used, in the end, as a term of an addition; each with
        that addition, its sink. The underflow of such a value is mostly negligible in its sink."""
        found: dict[Node, Node] = {}
        for node in reversed(self.nodes):
            (user,) = uses if len(uses := [*dict.fromkeys(self.trace.uses[node])]) == 1 else (node,)
            if node.kind in ("multiply", "sum", "divide"):
                if user.kind == "add" and len(user.dims) < len(self.trace.dims):
                    found[node] = user
                elif user in found and (user.kind == "sum" or (user.kind == "divide" and user.args[0] is node)):
                    found[node] = found[user]
        return found

    @lazy
    def exact(self) -> frozenset[Node]:
        """Return the nodes that have equal values in all kernels."""
        return frozenset((*self.same, *(node for node, place in self.rounded if place is None)))

    @lazy
    def _of_no_sum(self) -> F64:
        """Return the numbers of all nodes for rows of one element. Only those of sums depend on the length of rows."""
        return np.array([self._numbers(node, 1) for node in self.nodes]).T

    def numbers(self, n: int) -> F64:
        """Return the numbers (`ERROR` to `SINK`) of all nodes for rows of n elements, shape (6, nodes)."""
        if n not in self._known:
            self._known[n] = found = self._of_no_sum.copy()
            for node in self.sums:
                found[:, self.nodes.index(node)] = self._numbers(node, n)
        return self._known[n]

    @lazy
    def guesses(self) -> bool:
        """Whether a point rounds a value that differs between kernels, so that they may have other numbers there."""
        return any(node.kind == "point" and not self.values[node.args[0]].exact for node, _ in self.rounded)

    def made(self, output: str) -> Node:
        """Return the node whose rounding is the output, see `Budget.made`."""
        return self._made[output]

    @lazy
    def _made(self) -> Mapping[str, Node]:
        found = dict[str, Node]()
        for output, dtype in self.outputs.items():
            node = self.trace.outputs[output]
            while node.kind == "point" and ((point := self.pointed(node)) is None or point.dtype is judged(dtype)):
                (node,) = node.args
            found[output] = node
        return found

    @lazy
    def narrows(self) -> bool:
        """Whether each output has fewer bits than the dtype in which it is calculated. Then most correct outputs are
        the exact values, rounded: 71% of 940 gradients, as measured. Of other outputs only 12% are, so that looking
        takes longer than it saves."""
        return all(judged(dtype).u > self.dtype(self.made(name)).u for name, dtype in self.outputs.items())

    @lazy
    def is_wide(self) -> bool:
        """Whether some operation is calculated in float64."""
        return self.contract.is_wide

    def overflows(self, site: Site) -> bool:
        """Whether an overflow at a site is infinite in every kernel."""
        if site not in self.rounded:
            return False
        node, place = site
        exact = node.kind != "point" or self.values[node.args[0]].exact
        return place is None and exact and self.rounded[site].infinities

    def pointed(self, node: Node) -> RoundingPoint | None:
        """Return the rounding at a point; None if the contract rounds nothing there."""
        return self.contract.point(self.trace.names.get(node.args[0], ""))

    @lazy
    def lasts(self) -> frozenset[str]:
        """Return the outputs whose last operation rounds once, to the dtype of the output."""
        return frozenset(output for output in self.outputs if self._is_last(self.made(output), self.outputs[output]))

    def _is_last(self, node: Node, dtype: str) -> bool:
        return self.contract.rounds_once(node) and self.dtype(node).name == dtype

    def dtype(self, node: Node) -> Format:
        """Return the dtype in which a value is calculated."""
        return form(self.contract.dtypes.get(self.trace.names.get(node, ""), self.contract.compute))

    @lazy
    def _flushes(self) -> bool:
        """Whether some operation may flush subnormal numbers."""
        own = self.contract.flushing and not self.contract.flushing.isdisjoint(each.operation for each in self.nodes)
        return self.contract.denormals != "preserve" or bool(own)

    def _numbers(self, node: Node, n: int) -> tuple[float, ...]:
        value, flushes = self.values[node], self._flushes
        if node.kind in ("constant", "parameter", "extent"):
            return 0.0, 0.0, self.dtype(node).tiny * ROOM / 2 if flushes else 0.0, math.inf, 0.0, 0.0
        dtype = value.dtype
        loses = flushes or node.kind in ("multiply", "divide", "function")
        tiny = dtype.tiny * ROOM / 2 if loses else 0.0
        terms = all(user.kind == "sum" for user in self.trace.uses[node])  # never more than their sum
        limit = math.inf if value.exact or (terms and self.trace.uses[node]) else dtype.limit / ROOM
        sink = (dtype.tiny if flushes else dtype.eta) * _NOTHING if node in self.sinks else math.inf
        if node.kind == "sum":
            order = self.contract.order(self.trace.names.get(node, ""), node.label)
            chain = order.chain(n)
            few = self.structured or is_biased(order) or self.values[node.args[0]].bits < dtype.precision
            likely, worst = sum_budget(dtype, chain, few)[1], sum_budget(dtype, chain, True)[1]
            errors = [each + DUST if n > 1 or is_short(order) else 0.0 for each in (likely, worst)]
            return *errors, tiny * (n if flushes else 1), limit, 0.0, sink
        error, last = self._errors(node, dtype)
        return error, 0.0, tiny, limit, last, sink

    def _errors(self, node: Node, dtype: Format) -> tuple[float, float]:
        """Return the relative errors of an operation, and of an output's last operation without its rounding."""
        kind, u = node.kind, dtype.u
        if kind in ("tensor", "point"):
            return 0.0, 0.0
        relative, last = u, 0.0
        if kind == "add" and self.values[node].exact:
            return 0.0, 0.0
        if kind == "multiply":
            a, b = (self.values[arg].bits for arg in node.args)
            relative = u if (a + b if min(a, b) > 1 else max(a, b)) > dtype.precision else 0.0
        elif kind != "add":
            relative = self.contract.relative(node.operation, u)
            last = 0.0 if self.contract.rounds_once(node) else relative
            if kind == "divide" and node.args[1].kind == "extent" and self.contract.mean == "reciprocal":
                relative = last = 2 * u + u**2
        return (each + DUST if each else 0.0 for each in (relative, last))  # type: ignore[return-value]


_FAMILY: tuple[Kind, ...] = ("multiply", "divide", "add", "sum", "point")
"""Operations whose errors are in proportion to their values, as the errors of powers also are."""


class _Apart(Exception):  # noqa: N818 (no error)
    """Kernels round a value to different numbers, depending on their errors, so that there is no plan."""


def planned(plan: FormulaPlan) -> FormulaPlan | None:
    """Return the completed plan; None if no screen can judge by it, such as for roundings that depend on errors."""
    trace = plan.trace
    if any(node.kind in SELECTS for node in trace.nodes):
        return None
    if plan.contract.wider or (plan.contract.addend == "any" and trace.chains):
        return None
    if counted(trace, {name for name, dtype in plan.tensors.items() if dtype not in FORMATS}):
        return None
    if trace.joined or len(trace.dims) != 2 or OUTER not in trace.dims or plan.is_wide:
        plan.apart.append(None)
    try:
        for node in plan.nodes:
            plan.values[node] = _known(plan, node)
            if node.kind == "sum":
                plan.sums[node] = plan.dtype(node)
    except _Apart:
        return None
    return plan


def _known(plan: FormulaPlan, node: Node) -> PlannedValue:
    kind, dtype = node.kind, plan.dtype(node)
    if kind in ("constant", "parameter", "extent"):
        power = kind == "constant" and abs(math.frexp(node.value)[0]) in (0.0, 0.5)
        if node.low:
            raise _Apart
        return PlannedValue(DOUBLE, 1 if power else DOUBLE.precision, True, node.value >= 0)
    if kind in ("tensor", "position"):
        stored = FORMATS.get(plan.tensors.get(node.label, ""))
        dtype = stored or DOUBLE
        if OUTER not in node.dims or stored is None:
            plan.apart.append(node)
        return PlannedValue(dtype, dtype.precision, True, False)
    if kind == "point":
        return _pointed(plan, node)
    if kind not in _FAMILY and not (kind == "function" and node.function.power):
        plan.apart.append(node)
    if node.is_exact:
        args = [plan.values[arg] for arg in node.args]
        dtype = max((each.dtype for each in args), key=lambda each: each.precision)
        return PlannedValue(dtype, max(each.bits for each in args), False, False)
    args = [_taken(plan, node, place, dtype) for place in range(len(node.args))]
    exact = all(each.exact for each in args)
    positive = all(each.positive for each in args)
    if kind == "multiply":
        if any(arg.kind in ("parameter", "extent") for arg in node.args):
            plan.apart.append(node)  # the bits depend on the value
        bits = [each.bits for each in args]
        both = sum(bits) if min(bits) > 1 else max(bits)
        positive |= node.args[0] is node.args[1]
        return PlannedValue(dtype, min(both, dtype.precision), exact and both <= dtype.precision, positive)
    if kind in ("add", "subtract"):
        return _added(plan, node, args, positive)
    of_elements = bool(node.args) and len(node.args[0].dims) == len(plan.trace.dims)
    if (kind == "sum" and (OUTER in node.over or not of_elements)) or (kind != "divide" and not positive):
        plan.apart.append(node)
    return PlannedValue(dtype, dtype.precision, False, positive)


def _added(plan: FormulaPlan, node: Node, args: Sequence[PlannedValue], positive: bool) -> PlannedValue:
    """Return the facts about an addition. If both operands are exact, all kernels have the same sum; if not, the
    operands must not cancel."""
    dtype = plan.dtype(node)
    if plan.contract.addend != "last" and not plan.trace.started.isdisjoint(node.args):
        plan.apart.append(node)  # errors are in proportion to terms
    if any(arg.args for arg in node.args) or not (args[0].exact and args[1].exact):
        if len(node.dims) == len(plan.trace.dims) or not positive:
            plan.apart.append(node)
        return PlannedValue(dtype, dtype.precision, False, positive)
    for zero, place in ((0, 1), (1, 0)):
        arg = node.args[zero]
        nothing = arg.label in plan.zeros if arg.kind == "parameter" else arg.kind == "constant" and not arg.value
        if nothing and not plan.contract.flushes_results and (zero == 1 or node.kind == "add"):
            plan.same[node] = node.args[place]
            return args[place]
    if dtype is DOUBLE:
        return PlannedValue(dtype, dtype.precision, False, positive)
    plan.rounded[node, None] = dtype
    return PlannedValue(dtype, dtype.precision, True, positive)


def _pointed(plan: FormulaPlan, node: Node) -> PlannedValue:
    (arg,) = node.args
    value, point = plan.values[arg], plan.pointed(node)
    if point is None or ((value.exact or not point.always) and _holds(value, point.dtype)):
        return value
    dtype = point.dtype
    if not point.always:
        plan.apart.append(node)
        return PlannedValue(value.dtype, value.bits, False, value.positive)
    if not value.exact and _holds(value, dtype):
        if plan.dtype(arg) is dtype:
            raise _Apart  # errors decide which of near numbers
        return value
    if dtype is DOUBLE:
        raise _Apart
    plan.rounded[node, None] = dtype
    return PlannedValue(dtype, min(value.bits, dtype.precision), True, value.positive)


def _taken(plan: FormulaPlan, node: Node, place: int, dtype: Format) -> PlannedValue:
    """Return the facts about an argument, rounded as the node uses it."""
    arg = node.args[place]
    value = plan.values[arg]
    if _holds(value, dtype):
        return value
    if not value.exact:
        raise _Apart
    if arg.dims:
        plan.apart.append(node)
    plan.rounded[node, place] = dtype
    return PlannedValue(dtype, min(value.bits, dtype.precision), True, value.positive)


def _holds(value: PlannedValue, dtype: Format) -> bool:
    return value.bits <= dtype.precision and value.dtype.emin >= dtype.emin and value.dtype.max <= dtype.max
