"""How far a correct kernel may stray from a formula's exact value: the formula, read over affine forms.

The half-width that comes out is the tolerance by definition: the precise tier uses the same one around its own centre,
and simulated kernels check it (`oracles.formula.simulation`). It is never less than the supremum of the errors that the
contract allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracles.budget import sum_budget
from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.formula.arithmetic import Float64
from oracles.formula.centre import Inputs
from oracles.formula.contract import CORRECT, Contract
from oracles.formula.derivatives import tangent
from oracles.formula.errors import Rounding, either, flushed, more, narrowed, rounded
from oracles.formula.forms import DUST, Form, Mask, Symbol, combined, shared
from oracles.formula.trace import FUNCTIONS, REDUCTIONS, FormulaError, Kind, Node
from oracles.lazy import lazy
from oracles.rounding import NAMES, round_to

_CHOOSING: tuple[Kind, ...] = ("where", "point", "negate", "max", "absolute", "at_most", "less")
"""These change no bits, and so take values of any dtype."""
_ROUNDED_ONCE: tuple[Kind, ...] = ("add", "subtract", "multiply", "divide", "sqrt")
"""Where one of these is rounded correctly to the dtype of an output, its rounding is that of the output."""
_ALIKE = 0.9
"""A sum of random rounding errors needs terms that differ: where fewer than this share of those that are not zero have
a magnitude of their own, only the worst case is sound. Constant rows and rows of ties violated the statistical budget.
"""


@dataclass(frozen=True)
class Budget:
    """The forms of all values of a formula, for one contract and one problem."""

    inputs: Inputs
    contract: Contract
    structured: bool = False
    """Whether rounding errors are not random, so that only the worst case is sound."""

    @lazy
    def forms(self) -> Mapping[Node, Form]:
        """What kernels have for each node. Raises FormulaError for a formula that has no budget."""
        found: dict[Node, Form] = {}
        with np.errstate(all="ignore"):
            for node in self.inputs.trace.nodes:
                found[node] = self._step(node, self._taken(found, node)) if node.args else self._leaf(node)
        return found

    def output(self, name: str, dtype: str) -> Form:
        """What kernels have for an output before they round it to its dtype."""
        node = self.inputs.trace.outputs[name]
        once = (
            node.kind in _ROUNDED_ONCE and self.contract.ulp("divide" if node.kind == "divide" else "sqrt") == CORRECT
        )
        if not once or self.dtype(node).name != dtype:
            return self.forms[node]
        with np.errstate(all="ignore"):
            return self._step(node, self._taken(dict(self.forms), node), last=True)

    def half_width(self, form: Form) -> F64:
        """How far values may lie from the centre, rounded up: a half-width is made of sums and products of float64
        numbers that are not negative, of which none was rounded more often than this allows for."""
        reduced = {node.label for node in self.inputs.trace.nodes if node.kind in REDUCTIONS}
        longest = max((self.inputs.extents[dim] for dim in reduced), default=1)
        return form.spread * (1.0 + 2.0**-52 * (longest + 16) * len(self.inputs.trace.nodes))

    def dtype(self, node: Node) -> Format:
        """The dtype in which a value is calculated."""
        return form(self.contract.dtypes.get(self._name(node), self.contract.compute))

    def _name(self, node: Node) -> str:
        return self.inputs.trace.names.get(node, "")

    def _taken(self, found: dict[Node, Form], node: Node) -> list[Form]:
        """The arguments as the node takes them: errors that several elements take are symbols from here on, and what
        has more bits than the node's dtype is rounded to it."""
        wide = node.dims | {node.label} if node.kind in REDUCTIONS else node.dims
        args = list[Form]()
        for arg in node.args:
            if wide - arg.dims:
                found[arg] = shared(found[arg])
            kept = node.kind in _CHOOSING
            args.append(found[arg] if kept else narrowed(found[arg], self.dtype(node), self.contract))
        return args

    def _leaf(self, node: Node) -> Form:
        values = self.inputs.leaf(node)
        if values.dtype == bool:
            return Form(values.astype(np.float64), form("f64"), bits=1)
        if node.kind == "tensor":
            dtype = form(NAMES[self.inputs.tensors[node.label].dtype])
            return flushed(Form(values, dtype, dtype.precision), self.contract)
        power = values.size == 1 and float(np.frexp(np.abs(values.item()))[0]) in (0.0, 0.5)
        rest = np.full(values.shape, abs(node.low)) if node.low else None
        return Form(values, form("f64"), bits=1 if power else form("f64").precision, rest=rest)

    def _step(self, node: Node, args: Sequence[Form], *, last: bool = False) -> Form:
        if node.kind in ("add", "subtract"):
            return self._added(node, args, last)
        if node.kind in ("multiply", "divide"):
            return self._product(node, args, last) if node.kind == "multiply" else self._quotient(node, args, last)
        if node.kind in FUNCTIONS:
            return self._function(node, args[0], last)
        if node.kind in REDUCTIONS:
            return self._reduced(node, args)
        return _CHOICES[node.kind](self, node, args)

    def _added(self, node: Node, args: Sequence[Form], last: bool) -> Form:
        a, b = args
        sign = 1.0 if node.kind == "add" else -1.0
        parts, rest = combined([(a, None), (b, np.full((1,) * b.centre.ndim, sign))])
        dtype = self.dtype(node)
        found = Form(a.centre + sign * b.centre, dtype, dtype.precision, parts, rest, either(args))
        if not last:
            exact = ((a.centre == 0) & (a.spread == 0)) | ((b.centre == 0) & (b.spread == 0))
            errors = found.size * (dtype.u + DUST)
            found = more(found, np.where(exact, 0.0, errors) if exact.any() else errors)
        return rounded(found, Rounding(underflow=0.0), self.contract)

    def _product(self, node: Node, args: Sequence[Form], last: bool) -> Form:
        a, b = args
        remainder = None if a.is_exact or b.is_exact else a.spread * b.spread
        parts, rest = combined([(a, b.centre), (b, a.centre)], remainder)
        bits = a.bits + b.bits if min(a.bits, b.bits) > 1 else max(a.bits, b.bits)
        dtype = self.dtype(node)
        found = Form(a.centre * b.centre, dtype, min(bits, dtype.precision), parts, rest, either(args))
        relative = 0.0 if last or bits <= dtype.precision else dtype.u
        return rounded(found, Rounding(relative, 0.0 if last else 0.5, self._is_fused(node)), self.contract)

    def _is_fused(self, node: Node) -> bool:
        uses = self.inputs.trace.uses.get(node, ())
        return self.contract.fused and any(use.kind in ("add", "subtract", "sum") for use in uses)

    def _quotient(self, node: Node, args: Sequence[Form], last: bool) -> Form:
        a, b = args
        dtype, centre, remainder = self.dtype(node), a.centre / b.centre, None
        if not b.is_exact:
            share = b.spread / np.abs(b.centre)
            growth = np.where(share < 1, share / (1 - share), np.inf)
            remainder = np.abs(centre) * share * growth + a.spread / np.abs(b.centre) * growth
            remainder = np.where(b.spread == 0, 0.0, remainder)
        parts, rest = combined([(a, 1 / b.centre), (b, -centre / b.centre)], remainder)
        ulp = self.contract.ulp("divide")
        relative = 2 * dtype.u * ulp
        if node.args[1].kind == "extent" and self.contract.mean == "reciprocal":
            relative, last = 2 * dtype.u + dtype.u**2, False
        found = Form(centre, dtype, dtype.precision, parts, rest, either(args))
        return rounded(found, Rounding(0.0 if last else relative, 0.0 if last else ulp), self.contract)

    def _function(self, node: Node, arg: Form, last: bool) -> Form:
        dtype, centre = self.dtype(node), Float64().apply(node.kind, arg.centre)
        parts, rest = dict[Symbol, F64](), None
        if not arg.is_exact:
            bend = tangent(node.kind, arg.centre, centre, arg.spread)
            parts, rest = combined([(arg, bend.slope)], bend.remainder)
        ulp = self.contract.ulp(node.kind)
        # A rsqrt of 1 ulp is two correct roundings, one after the other.
        relative = 2 * dtype.u / (1 - dtype.u) if (node.kind, ulp) == ("rsqrt", 1.0) else 2 * dtype.u * ulp
        found = Form(centre, dtype, dtype.precision, parts, rest, arg.may)
        return rounded(found, Rounding(0.0 if last else relative, 0.0 if last else max(0.5, ulp)), self.contract)

    def _reduced(self, node: Node, args: Sequence[Form]) -> Form:
        if node.kind == "max":
            return self._greatest(node, args[0])
        if node.kind == "dot":
            product = Node("multiply", node.args, node.args[0].dims | node.args[1].dims)
            return self._sum(node, self._product(product, args, last=False))
        return self._sum(node, args[0])

    def _sum(self, node: Node, terms: Form) -> Form:
        axis, n, dtype = self.inputs.axis(node.label), self.inputs.extents[node.label], self.dtype(node)
        sizes = _summed(terms.size, axis, n)
        reach = _summed(np.where(np.isinf(terms.centre), 0.0, terms.size), axis, n)
        chain = self.contract.order(self._name(node), node.label).chain(n)
        # Terms of fewer bits are whole numbers of a coarse unit, see `oracles.budget.row_budget`.
        _, theta, statistical = sum_budget(dtype, chain, self.structured or terms.bits < dtype.precision)
        allowed: F64 | float = theta
        if statistical:
            allowed = np.where(_are_alike(terms.centre, axis, dtype), sum_budget(dtype, chain, True)[1], theta)
        parts, rest = _reduced_errors(terms, lambda errors: _summed(errors, axis, n), axis)
        found = Form(_summed(terms.centre, axis, n), dtype, dtype.precision, parts, rest, _any(terms.may, axis))
        if n > 1:
            found = more(found, sizes * (allowed + DUST))
        mixed = (terms.centre > 0).any(axis, keepdims=True) & (terms.centre < 0).any(axis, keepdims=True)
        rounding = Rounding(underflow=0.0, reach=reach * (1 + theta), certain=np.logical_not(mixed))
        return rounded(found, rounding, self.contract)

    def _greatest(self, node: Node, arg: Form) -> Form:
        """The maximum has the errors that all elements share, and at most the largest of the others."""
        axis = self.inputs.axis(node.label)
        centre = Float64().greatest(arg.centre, axis)
        parts, rest = _reduced_errors(
            arg, lambda errors: np.maximum.reduce(errors, axis, keepdims=True, initial=0), axis
        )
        for symbol, coefficient in arg.parts.items():
            if symbol in parts and coefficient.shape[axis] == 1:
                parts[symbol] = coefficient
        return replace(arg, centre=centre, parts=parts, rest=rest, may=_any(arg.may, axis))

    def _where(self, node: Node, args: Sequence[Form]) -> Form:
        mask, (a, b) = args[0].centre != 0, args[1:]
        zero, no = np.zeros((1,) * mask.ndim), np.zeros((1,) * mask.ndim, bool)
        parts = {s: np.where(mask, a.parts.get(s, zero), b.parts.get(s, zero)) for s in {**a.parts, **b.parts}}
        rest = np.where(mask, zero if a.rest is None else a.rest, zero if b.rest is None else b.rest)
        may = np.where(mask, no if a.may is None else a.may, no if b.may is None else b.may)
        dtype = max(a.dtype, b.dtype, key=lambda each: each.precision)
        centre = np.where(mask, a.centre, b.centre)
        return Form(centre, dtype, max(a.bits, b.bits), parts, rest if rest.any() else None, may if may.any() else None)

    def _mask(self, node: Node, args: Sequence[Form]) -> Form:
        if not all(each.is_exact for each in args):
            raise FormulaError("a mask compares values that kernels round in different ways")
        mask = Float64().compare(node.kind, args[0].centre, args[1].centre)
        return Form(mask.astype(np.float64), form("f64"), bits=1)

    def _point(self, node: Node, args: Sequence[Form]) -> Form:
        name = self._name(node.args[0])
        return (
            narrowed(args[0], form(self.contract.points[name]), self.contract)
            if name in self.contract.points
            else args[0]
        )

    def _negated(self, node: Node, args: Sequence[Form]) -> Form:
        parts, rest = combined([(args[0], np.full((1,) * args[0].centre.ndim, -1.0))])
        return replace(args[0], centre=-args[0].centre, parts=parts, rest=rest)

    def _absolute(self, node: Node, args: Sequence[Form]) -> Form:
        (arg,) = args
        bend = tangent("absolute", arg.centre, np.abs(arg.centre), arg.spread)
        parts, rest = combined([(arg, bend.slope)], None if arg.is_exact else bend.remainder)
        return replace(arg, centre=np.abs(arg.centre), parts=parts, rest=rest)


_CHOICES: Mapping[Kind, Callable[[Budget, Node, Sequence[Form]], Form]] = {
    "where": Budget._where, "at_most": Budget._mask, "less": Budget._mask, "point": Budget._point,
    "negate": Budget._negated, "absolute": Budget._absolute,
}  # fmt: skip


def _reduced_errors(terms: Form, reduce: Callable[[F64], F64], axis: int) -> tuple[dict[Symbol, F64], F64 | None]:
    """The errors of what a reduction makes of its terms: those that all terms share stay symbols, with signs."""
    parts, rest = dict[Symbol, F64](), None if terms.rest is None else reduce(terms.rest)
    for symbol, coefficient in terms.parts.items():
        if symbol.radius.shape[axis] == 1:
            parts[symbol] = reduce(coefficient)
        else:
            errors = reduce(np.abs(coefficient) * symbol.radius)
            rest = errors if rest is None else rest + errors
    return parts, rest


def _summed(values: F64, axis: int, n: int) -> F64:
    found: F64 = values * n if values.shape[axis] == 1 else values.sum(axis=axis, keepdims=True)
    return found


def _any(mask: Mask | None, axis: int) -> Mask | None:
    found: Mask | None = None if mask is None else np.logical_or.reduce(mask, axis=axis, keepdims=True)
    return found


def _are_alike(terms: F64, axis: int, dtype: Format) -> Mask:
    """Where too few of a sum's terms have a magnitude of their own, as kernels see it: what is small beside a mean that
    is taken from it leaves all the same."""
    sizes = np.sort(round_to(np.abs(terms), dtype), axis=axis)
    own = (np.diff(sizes, axis=axis) > 0).sum(axis=axis, keepdims=True) + 1
    return np.asarray(own < _ALIKE * (sizes > 0).sum(axis=axis, keepdims=True))
