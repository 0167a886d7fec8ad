"""Simulated correct kernels of a formula. They round after each operation, and make random choices where a contract
leaves something open. Calibration and tests use them: no budget may reject their outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as node_replaced
from typing import Any as Anything
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format, form, judged
from oracles.formula.chains import Addend, Chain
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, step
from oracles.formula.exact.counts import counted
from oracles.formula.node import EITHER, FIRST, LAST, SELECTS, TOLD
from oracles.formula.trace import REDUCTIONS, Node, exponential_of
from oracles.lazy import lazy
from oracles.problem import Problem
from oracles.rounding import NAMES, STORAGE, round_to, stored_as
from oracles.simulated.roundings import Join, Joining, Rescaling, Roundings, cut_off, joined, rescaling, scanned, total
from oracles.summation import AnyOrder, Blocks, Lanes, Pairwise, Sequential, Summation
from oracles.tiers.problem import FormulaProblem

Order = Literal["declared", "reversed", "permuted", "lanes", "tree"]
ORDERS: tuple[Order, ...] = ("declared", "reversed", "permuted", "lanes", "tree")
_SCANS: Mapping[Order, Literal["places", "blocks", "tree"]] = {
    "declared": "places", "reversed": "places", "permuted": "places", "lanes": "blocks", "tree": "tree"
}  # fmt: skip
_FUSED = 0.7
"""The share of products that go into a sum unrounded if the contract allows it. Chosen, not measured."""
_LONGEST = 300
"""The longest sum of unrounded products, in which each addition is a slow step of its own."""


def _as_it_is(values: F64) -> F64:
    return values


@dataclass(frozen=True)
class Simulated:
    """One simulated kernel, run on one problem. A state of `random` always gives the same kernel."""

    inputs: Inputs
    contract: Contract
    random: np.random.Generator
    order: Order = "declared"
    """The order of sums for which the contract allows any order."""
    fused: bool = False
    changed: Mapping[Node, Callable[[F64], F64]] = field(default_factory=dict)
    """Planted errors: functions that change the values of nodes."""
    _known: dict[Node, F64] = field(default_factory=dict)
    _courses: dict[tuple[Node, Summation], Rescaling] = field(default_factory=dict)

    @lazy
    def values(self) -> Mapping[Node, F64]:
        """Return the kernel's values of each node."""
        with np.errstate(all="ignore"):
            for node in self.inputs.trace.nodes:
                found = self.changed.get(node, _as_it_is)(self._step(node))
                self._known[node] = self._unspecified(node, found) if self.contract.nonfinite != "ieee" else found
        return self._known

    def output(self, name: str, dtype: str) -> F64:
        """Return an output in its dtype, as float64."""
        node = self.inputs.trace.outputs[name]
        values = self.values[node]
        if self.contract.flushes_operands and judged(dtype) is not self._held(node):
            values = self._rounding.flushed(values, self._held(node))
        values = self._converted(values, node, judged(dtype))
        if self.contract.saturate:
            values = np.where(np.isinf(values), np.copysign(judged(dtype).max, values), values)
        if self.contract.zeros == "any":
            values = np.where(values == 0, self.random.choice([-0.0, 0.0], values.shape), values)
        return values

    def _held(self, node: Node) -> Format:
        """Return the dtype of a value before a cast to an output's dtype. A chosen or moved value keeps its dtype."""
        if node.kind == "point":
            point = self._decided.point(self.inputs.trace.names.get(node.args[0], ""))
            return self._held(node.args[0]) if point is None else point.dtype
        if node.is_exact and node.kind not in TOLD:
            among = node.args[1:] if node.kind == "where" else node.args[:1]
            values = (each for each in among if each.args or each.kind == "tensor")  # constants have no dtype
            return max(map(self._held, values), key=lambda each: each.precision, default=DOUBLE)
        if not node.args:
            stored = NAMES.get(self.inputs.tensors[node.label].dtype) if node.kind == "tensor" else None
            return DOUBLE if stored is None else form(stored)
        return self._dtype(node)

    def _converted(self, values: F64, node: Node, dtype: Format) -> F64:
        """Return the values of a node converted to another dtype, where subnormal results may be flushed."""
        found = round_to(values, dtype)
        is_number = not node.args and node.kind != "tensor"
        return found if is_number or dtype.tiny <= self._kept_in(node).tiny else self._rounding.result(found, dtype)

    def _kept_in(self, node: Node) -> Format:
        """Return the dtype with the smallest numbers among those in which a value is calculated or moved."""
        found = self._held(node)
        return min(found, self._dtype(node), key=lambda each: each.tiny) if node.kind in ("take", "negate") else found

    @lazy
    def _counted(self) -> frozenset[Node]:
        return counted(self.inputs.trace, self.inputs.integers)

    @lazy
    def _is_whole(self) -> bool:
        """Whether online sums calculate exponentials in their own dtype, not in the contract's `compute`."""
        return bool(self.random.integers(2))

    @lazy
    def _decided(self) -> Contract:
        return self.contract.decided(lambda: bool(self.random.integers(2)))

    @lazy
    def _rounding(self) -> Roundings:
        return Roundings(self.contract, self.random)

    def _round(self, values: F64, node: Node) -> F64:
        return values if self._is_wider() else self._rounding.result(values, self._dtype(node))

    def _is_wider(self) -> bool:
        """Whether an operation leaves out its rounding, at random if the contract allows it."""
        return self.contract.wider and bool(self.random.integers(2))

    def _dtype(self, node: Node) -> Format:
        return form(self.contract.dtypes.get(self.inputs.trace.names.get(node, ""), self.contract.compute))

    def _unspecified(self, node: Node, values: F64) -> F64:
        """Return values with random ones in place of those that the contract leaves open at this node."""
        wild = np.zeros((1,) * values.ndim, bool)
        if node.kind in ("where", "take", *SELECTS):  # they only pass on what their operands have
            wild = ~np.isfinite(values)
        else:
            for arg in node.args:
                wild = wild | ~np.isfinite(self._known[arg])
        if node.kind in REDUCTIONS:
            wild = np.logical_or.reduce(wild, self.inputs.axes(node), keepdims=True)
        became = ~np.isfinite(values) & ~wild
        if self.contract.nonfinite == "unspecified":
            became = became | np.isnan(values) if node.args else ~np.isfinite(values)
        elif not node.args:
            return values
        if node.kind in ("constant", "parameter") or not became.any():
            return values
        return np.where(became, self.random.choice([0.0, 1.0, np.inf, np.nan], values.shape), values)

    def _step(self, node: Node) -> F64:
        if not node.args:
            return self._operand(node)
        args = [self._known[arg] for arg in node.args]
        if node.kind in ("where", "take") or node in self._counted:
            if node.kind == "where":
                args[0] = args[0] != 0
            return np.asarray(step(node, args, Float64(), self.inputs), dtype=np.float64)
        if node.kind == "point":
            return self._at_point(node, args[0])
        if node.is_exact:
            if node.kind == "place" and (node.value == EITHER or self.contract.ties == "either"):
                node = node_replaced(node, value=LAST if self.random.integers(2) else FIRST)
            if node.kind == "max" and self.contract.flushes_operands and self.random.integers(2):
                return self._rounding.greatest(args[0], self._held(node.args[0]), self.inputs.axes(node))
            args = [self._rounding.taken(*each) for each in zip(args, map(self._held, node.args), strict=True)]
            return np.asarray(step(node, args, Float64(), self.inputs), dtype=np.float64)
        args, dtype = self._taken(node), self._dtype(node)
        if node.kind in ("add", "subtract"):
            return self._added(node, args)
        if node.kind == "divide":
            return self._quotient(node, args)
        if node.kind == "function":
            return self._rounding.function(node.function, args[0], dtype)
        if node.kind == "pair":
            return self._rounding.erring(step(node, args, Float64(), self.inputs), node.label, dtype)
        if node.kind in ("welford_mean", "welford_squares", "online"):
            return self._updated(node, args[0])
        if node.kind == "scan":
            return self._scanned(node, args)
        if node.kind == "online_dot":
            return self._scaled_again(node, args[1])
        if node.kind in REDUCTIONS:
            return self._summed(node, args)
        return self._round(args[0] * args[1], node)

    def _taken(self, node: Node) -> list[F64]:
        """Return the arguments of an operation, converted to its dtype."""
        dtype = self._dtype(node)
        args = [
            self._known[arg] if self._is_wider() else self._converted(self._known[arg], arg, dtype) for arg in node.args
        ]
        return [self._rounding.taken(arg, dtype) for arg in args]

    def _operand(self, node: Node) -> F64:
        values = self.inputs.leaf(node)
        if node.kind != "tensor":
            return np.asarray(values, dtype=np.float64)
        dtype = NAMES.get(self.inputs.tensors[node.label].dtype)
        if not self.contract.flushes_operands or dtype is None or self.random.random() < 0.5:
            return values
        return self._rounding.flushed(values, form(dtype))

    @lazy
    def _chains(self) -> Mapping[Node, Chain]:
        return self.contract.chains(self.inputs.trace, self._counted)

    def _in_any_order(self, node: Node) -> F64:
        """Return the sum of a chain's terms, added in random order. A reduction among them may start with another
        term."""
        dtype, terms = self._dtype(node), list[tuple[F64, Addend | None]]()
        for term in self._chains[node].terms:
            product = self._unrounded(term.node, node)
            value = self._taken(term.taker)[term.place] if product is None else product
            terms.append((value * term.sign, term))
        while len(terms) > 1:
            (a, of_a), (b, _) = (terms.pop(self.random.integers(len(terms))) for _ in range(2))
            if of_a is not None and self._starts(of_a, node) and self.random.integers(2):
                found = self._summed(of_a.node, self._taken(of_a.node), b * of_a.sign) * of_a.sign
            else:
                found = self._rounding.sum(self._rounding.taken(a, dtype), self._rounding.taken(b, dtype), dtype)
            terms.append((found, None))
        return terms[0][0]

    def _starts(self, term: Addend, last: Node) -> bool:
        of = term.node
        apart = last.dims.isdisjoint(of.over) and self._dtype(of) is self._dtype(last)
        return apart and of in self.inputs.trace.started

    def _added(self, node: Node, args: list[F64]) -> F64:
        if node in self._chains:
            return self._in_any_order(node)
        sign = 1.0 if node.kind == "add" else -1.0
        for place, arg in enumerate(node.args):
            if self.contract.addend != "last" and arg in self.inputs.trace.started and self.random.integers(2):
                turned = sign if place else 1.0  # the start may be the minuend
                other, given = node.args[1 - place], args[1 - place]
                if self._dtype(arg) is not self._dtype(node) and self.random.integers(2):  # not in the node's dtype
                    given = self._known[other]
                first = self._converted(given, other, self._dtype(arg))
                found = self._summed(arg, self._taken(arg), first * (turned if place else sign)) * turned
                return self._converted(found, arg, self._dtype(node))
        for place in (0, 1):
            product = self._unrounded(node.args[place], node)
            if product is not None:
                args = [product if at == place else arg for at, arg in enumerate(args)]
                break
        return self._rounding.sum(args[0], sign * args[1], self._dtype(node))

    def _unrounded(self, product: Node, node: Node) -> F64 | None:
        """Return a product that goes into a sum unrounded; None for other nodes. The product of two numbers of at most
        24 bits is exact in float64."""
        is_fused = self.fused and product.kind == "multiply" and self._may_fuse(product, node)
        if not is_fused or self.random.random() >= _FUSED:
            return None
        a, b = (round_to(self._known[arg], self._dtype(product)) for arg in product.args)
        return a * b

    def _may_fuse(self, product: Node, node: Node) -> bool:
        """Whether a sum may use a product unrounded. If the product is declared in another dtype, the sum gets the
        rounded one; in f64 such a product is no number of float64."""
        dtype = self._dtype(node)
        return self.contract.fused and dtype is self._dtype(product) and dtype is not DOUBLE

    def _quotient(self, node: Node, args: list[F64]) -> F64:
        if node.args[1].kind == "extent" and self.contract.mean == "reciprocal":
            return self._round(args[0] * self._round(1.0 / args[1], node), node)
        if node.kind in self.contract.flushing:
            args = [self._rounding.flushed(arg, self._dtype(node)) for arg in args]
        return self._rounding.erring(args[0] / args[1], node.kind, self._dtype(node))

    def _summed(self, node: Node, args: list[F64], first: F64 | None = None) -> F64:
        """Return the sum of a reduction. If `first` is given, it is one more term, which comes first."""
        n, dtype = self.inputs.number(node), self._dtype(node)
        fused = self.fused and n <= _LONGEST
        factors = self._factors(node) if fused else None
        if factors is not None:
            terms = factors[0] * factors[1]
        else:
            terms = args[0] if node.kind == "sum" else self._round(args[0] * args[1], node)
        declared = self.contract.order(self.inputs.trace.names.get(node, ""), node.label)
        lined = self._lined(terms, node)
        if first is not None:
            start = np.squeeze(first, self.inputs.axes(node))[..., None]
            shape = np.broadcast_shapes(lined.shape[:-1], start.shape[:-1])
            lined = np.concatenate(
                [np.broadcast_to(each, (*shape, each.shape[-1])) for each in (start, lined)], axis=-1
            )
            n = n + 1
        if not lined.size:
            return self._placed(np.zeros(lined.shape[:-1]), node)
        order: Summation = declared
        if isinstance(declared, Sequential | AnyOrder):
            structures: Mapping[str, Summation] = {"lanes": Lanes(8, 1, "predicated"), "tree": Pairwise()}
            order = structures.get(self.order, declared)
            lined = lined[..., ::-1] if self.order == "reversed" else lined
            lined = lined[..., self.random.permutation(n)] if self.order == "permuted" else lined
        if isinstance(order, Sequential | AnyOrder) and (factors is not None or self.contract.denormals != "preserve"):
            return self._placed(self._chained(lined, node), node)
        if isinstance(order, Blocks) and order.truncates and dtype is not DOUBLE:
            return self._placed(cut_off(lined, order, dtype), node)
        lined = round_to(lined, dtype).astype(STORAGE[dtype.name])
        found = np.asarray(total(lined, order), dtype=np.float64)
        if self.order == "reversed":  # +0, the start, changes the sign of -0
            found = found + 0.0
        return self._placed(found, node)

    def _lined(self, terms: F64, node: Node) -> F64:
        """Return the terms of a reduction along the last axis; several dimensions in the order of its label."""
        dims, axes = self.inputs.trace.dims, self.inputs.axes(node)
        kept = [axis for axis in range(len(dims)) if axis not in axes]
        wide = [
            self.inputs.extents[dim] if dim in node.over else size for dim, size in zip(dims, terms.shape, strict=True)
        ]
        lined = np.broadcast_to(terms, wide).transpose(*kept, *axes)
        return lined.reshape(*lined.shape[: len(kept)], self.inputs.number(node))

    def _placed(self, found: F64, node: Node) -> F64:
        """Return the result of a reduction, with one element along each reduced dimension."""
        return np.expand_dims(found, self.inputs.axes(node))

    def _factors(self, node: Node) -> list[F64] | None:
        """Return the factors of a sum's products, which are exact in float64 with up to 48 bits; None for others."""
        product = node if node.kind == "dot" else node.args[0]
        if product.kind not in ("dot", "multiply") or not self._may_fuse(product, node):
            return None
        return [round_to(self._known[arg], self._dtype(product)) for arg in product.args]

    def _chained(self, terms: F64, node: Node) -> F64:
        """Return the sum of terms, added one after the other; terms may be unrounded products."""
        found, dtype = np.zeros(terms.shape[:-1]), self._dtype(node)
        for place in range(terms.shape[-1]):
            found = self._rounding.sum(self._rounding.taken(found, dtype), terms[..., place], dtype)
        return found

    def _updated(self, node: Node, terms: F64) -> F64:
        """Return a running statistic, updated term by term in each lane; then lanes are joined as a tree."""
        n, declared = self.inputs.number(node), self.contract.order(self.inputs.trace.names.get(node, ""), node.label)
        lined = self._lined(terms, node)
        lined = lined[..., self.random.permutation(n)] if self.order == "permuted" else lined
        if not n:
            nothing = np.nan if node.kind == "welford_mean" else 0.0
            return self._placed(np.full(lined.shape[:-1], nothing), node)
        lanes = min(n, 1 if isinstance(declared, Sequential) else max(n // declared.chain(n), 1))
        own, other = self._dtype(node), form(self.contract.compute)
        joining = Joining(self._rounding, own, own if own is other or self._is_whole else other)
        if node.kind == "online":
            first, second, _ = joined(lined, 1.0, lanes, joining.rescaled)
            second = np.where(np.isneginf(first), np.nan, second)  # the formula is NaN there
        else:
            first, second, _ = joined(lined, 0.0, lanes, joining.moments)
        return self._placed((first if node.kind == "welford_mean" else second)[..., 0], node)

    def _scaled_again(self, node: Node, values: F64) -> F64:
        """Return a sum of shares times values, rescaled as the maximum grows."""
        dtype, taken = self._dtype(node), self._rounding.taken
        is_fused = self.fused and self.contract.fused and dtype is not DOUBLE

        def summed(shares: F64, block: F64) -> F64:
            products = taken(round_to(self._at_point(node.args[0], shares), dtype), dtype) * block
            return self._chained(products if is_fused else self._round(products, node), node)

        def merged(first: F64, second: F64, how: Join) -> F64:
            parts = zip((first, second), how.factors, strict=True)
            a, b = (self._round(taken(part, dtype) * taken(round_to(by, dtype), dtype), node) for part, by in parts)
            return self._rounding.sum(a, b, dtype)

        lined = self._lined(values, node)
        if not lined.size:
            return self._placed(np.zeros(lined.shape[:-1]), node)
        return self._placed(self._rescaling(node).total(lined, summed, merged), node)

    def _rescaling(self, node: Node) -> Rescaling:
        """Return the course through the scores of a node. Nodes with the same shares have the same course."""
        share, _, scores = node.args
        exponential, order = (
            exponential_of(share),
            self.contract.order(self.inputs.trace.names.get(node, ""), node.label),
        )
        dtype = self._dtype(exponential)

        def found(value: F64, most: F64) -> F64:
            step = self._rounding.result(value - np.where(np.isneginf(most), 0.0, most), dtype)
            return self._rounding.function(exponential.function, self._rounding.taken(step, dtype), dtype)

        if (exponential, order) not in self._courses:
            lined = self._rounding.taken(round_to(self._lined(self._known[scores], node), dtype), dtype)
            course = rescaling(lined, order, self.order == "permuted", self.random, found)
            self._courses[exponential, order] = course
        return self._courses[exponential, order]

    def _at_point(self, node: Node, values: F64) -> F64:
        """Return the values at a point, which are rounded if the contract says so, from the values before."""
        if node.kind != "point":
            return values
        point = self._decided.point(self.inputs.trace.names.get(node.args[0], ""))
        if point is None:
            return values
        if point.dtype.holds(self._held(node.args[0])):
            return self._converted(values, node.args[0], point.dtype)  # no operation for its own dtype
        return self._rounding.point(values, point.dtype)

    def _scanned(self, node: Node, args: list[F64]) -> F64:
        (axis,), dtype = self.inputs.axes(node), self._dtype(node)
        order = self.contract.order(self.inputs.trace.names.get(node, ""), node.label)
        is_fused = self.fused and self.contract.fused and dtype is not DOUBLE

        def advanced(h: F64, a: F64, b: F64) -> F64:
            h = self._rounding.taken(h, dtype)
            product = a * h if is_fused and self.random.random() < _FUSED else self._round(a * h, node)
            return self._rounding.sum(product, b, dtype)

        way = "places" if isinstance(order, Sequential) else _SCANS[self.order]
        return scanned(
            args, axis, self.inputs.extents[node.label], way, self.random, advanced,
            lambda a, b: self._round(a * b, node),
        )  # fmt: skip


def simulate(of: Problem, contract: Contract, random: np.random.Generator) -> Mapping[str, NDArray[Anything]]:
    """Return the outputs of one random kernel with this contract: any allowed algorithm and order, fused or not."""
    op = FormulaProblem(of)
    settled = op.settled(contract)
    ways = op.formulas(settled)
    inputs = Inputs(ways[int(random.integers(len(ways)))].trace, op.tensors, op.parameters)
    order = ORDERS[int(random.integers(len(ORDERS)))]
    return returned(of, Simulated(inputs, settled, random, order, bool(random.integers(2))))


def returned(of: Problem, simulated: Simulated) -> Mapping[str, NDArray[Anything]]:
    """Return the outputs of a simulated kernel in the shapes that kernels return."""
    op, found = FormulaProblem(of), dict[str, NDArray[Anything]]()
    for name, dtype in of.outputs.items():
        values = op.returned(name, simulated.output(name, dtype))
        with np.errstate(over="ignore", invalid="ignore"):
            found[name] = values.astype(stored_as(dtype), order="C")
    return found
