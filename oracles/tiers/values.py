"""The values of a formula's outputs: the centre, which each tier calculates, and the half-width around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, ULP, DoubleDouble, ExtendedDouble, Real
from oracles.dtypes import DOUBLE, DTYPES, Integer
from oracles.enclosure import Mask
from oracles.formula.affine.budget import LOST, SAME, Budget
from oracles.formula.affine.forms import Form
from oracles.formula.affine.setting import JoinedProblem
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64, took
from oracles.formula.exact.centre import Exact, Inputs, evaluate
from oracles.formula.exact.extended import wide_values
from oracles.formula.node import SELECTS
from oracles.formula.trace import REDUCTIONS, FormulaError, Node, ordered
from oracles.lazy import lazy


@dataclass(frozen=True, eq=False)
class OutputValues:
    """The values of outputs under one contract: their forms, centres and widths."""

    inputs: Inputs
    contract: Contract
    outputs: Mapping[str, str]
    """The dtype of each output."""
    structured: bool = False
    dims: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """The dimensions of outputs, which may be more than those of their nodes."""
    complete: bool = True
    """Whether no absent operand may be replaced by added zeros, which would change the sign of a zero."""
    each: Sequence[JoinedProblem] = ()
    """The joined problems, in order; empty for a single problem."""
    exact: Exact | None = None
    """The evaluator of the op's own formula for the precise tier; None if the values are of this formula."""
    endless: bool = False
    """Whether exponents are unbounded, except where a value is rounded at a declared point."""
    sharp: bool = False
    """Whether only the exact value, rounded once, is right."""

    def __post_init__(self) -> None:
        unknown = {*self.outputs} - {*self.inputs.trace.outputs}
        if unknown:
            raise FormulaError(
                f"no output {', '.join(sorted(unknown))}; there are {', '.join(self.inputs.trace.outputs)}"
            )
        if self.exact is None:
            object.__setattr__(self, "exact", Exact(self.inputs))

    @lazy
    def budget(self) -> Budget:
        """Return the budget: the forms of all values of the formula under the contract."""
        contract, endless = self.contract, self.endless
        return Budget(self.inputs, contract, self.structured, self.each, endless, self.complete, self.sharp)

    @property
    def wide(self) -> bool:
        """Whether the centre must be calculated in double-double, since a centre in float64 would have errors as large
        as those of kernels."""
        return self.budget.wide

    def shape(self, output: str) -> tuple[int, ...]:
        """Return the extents of an output, in the order of the trace's dimensions; (1,) if it has none."""
        return tuple(self.inputs.extents[dim] for dim in self._ordered(output)) or (1,)

    def has_places(self, output: str) -> bool:
        """Whether an output holds places."""
        return self._kept(output).ranks is not None

    @lazy
    def rows(self) -> dict[Any, Any]:
        """Return a cache of orders of elements along rows, by precision, for `oracles.tiers.places`."""
        return {}

    def _is_integer(self, output: str) -> bool:
        return isinstance(DTYPES[self.outputs[output]], Integer)

    def place(self, output: str, index: Sequence[int]) -> Mapping[str, int]:
        """Return the place of an element along each dimension of the output."""
        return dict(zip(self._ordered(output), index, strict=False))  # a scalar has no dimension

    def _ordered(self, output: str) -> Sequence[str]:
        return [dim for dim in self.inputs.trace.dims if dim in self.axes(output)]

    def exactly(self, output: str) -> tuple[Exact, Node]:
        """Return the evaluator of an output's exact values, and the output's node in it."""
        assert self.exact is not None
        if not self._replaces[output]:
            return self.exact, self.exact.inputs.trace.outputs[output]
        # Values that every kernel rounds, or that overflow in all kernels, depend on the algorithm.
        return self._rounding, self.made(output)

    @lazy
    def _replaces(self) -> Mapping[str, bool]:
        """Return, by output, whether `Budget.replaced` replaces a centre on the way to it."""
        nodes = {node for node, _ in self.budget.replaced}
        return {output: not nodes.isdisjoint(ordered([self.made(output)])) for output in self.outputs}

    def made(self, output: str) -> Node:
        """Return the node whose rounding is the output."""
        return self.budget.made(output, self.outputs[output])

    @property
    def settles(self) -> bool:
        """Whether the value of some function is replaced by its value at infinity, which is not the exact value."""
        held = (node for node, _ in self.budget.read.held if node.kind == "function")
        return any(node.function.settles is not None for node in held)

    def rounds(self, output: str) -> bool:
        """Whether an output depends on a value that every kernel rounds on the way."""
        held = {node for node, _ in self.budget.read.held}
        return bool(held) and not held.isdisjoint(ordered([self.made(output)]))

    @lazy
    def _rounding(self) -> Exact:
        return Exact(self.inputs, self.budget.replaced)

    def centre(self, output: str) -> Real:
        """Return the fast tier's values, in the output's shape."""
        quick = self.shaped(output, self._kept(output).centre)
        if not self.wide:
            return quick
        found = self._wide(output)
        doubled = found.doubled if isinstance(found, ExtendedDouble) else found
        held = np.isfinite(quick) & ~np.isnan(doubled.high)  # at a pole of all kernels float64 has the result
        return DoubleDouble(np.where(held, doubled.high, quick), np.where(held, doubled.low, 0.0))

    def quick(self, output: str) -> F64:
        """Return the formula's values in float64, in the output's shape."""
        return self.shaped(output, self._kept(output).centre)

    def extended(self, output: str) -> F64:
        """Return the values in extended double-double, which has a larger range."""
        found = self._wide(output)
        return (found.doubled if isinstance(found, ExtendedDouble) else found).high

    def width(self, output: str) -> F64:
        """Return the half-widths around the centre, in the output's shape."""
        return np.zeros_like(self._widths[output]) if self.sharp and not self._steps(output) else self._widths[output]

    def _steps(self, output: str) -> bool:
        """Whether an output is made from a step function next to a step, such as the floor of tanh(80): there the
        centre is the middle of both sides, not the exact value."""
        held = self.budget.read.held.items()
        steps = ((node, values) for (node, _), values in held if node.kind == "function")
        sides = {node for node, values in steps if node.function.tangent is None and np.isfinite(values).any()}
        return bool(sides) and not sides.isdisjoint(ordered([self.made(output)]))

    def error(self, output: str, wide: bool) -> F64:
        """Return bounds of the centre's error, for a centre in float64, or with `wide` in double-double."""
        quick, width = self.shaped(output, self._kept(output).centre), self._widths[output]
        relative, lost = (ULP, 2.0**-1073) if wide else (2.0**-53, LOST)
        node = self.made(output)
        if node.kind == "function":
            own_bound = (node.function.double if wide else node.function.float64).bound
            relative = max(relative, own_bound.relative)
        if node.kind == "pair":
            from oracles.formula import pairs

            relative = max(relative, pairs.own_bound(wide).relative)
        share = self.budget.own_share(wide)
        share = share if np.ndim(share) == 0 else self.shaped(output, np.asarray(share))
        own = width * (share + SAME) + np.abs(quick) * (2 * relative) + lost
        known = np.isfinite(quick)
        if not self.wide and self._kept(output).bits <= DOUBLE.precision:
            known = known & ((width != 0) | (quick == 0))  # else float64 is exact
        return np.where(known, own, 0.0)

    def _wide(self, output: str) -> DoubleDouble | ExtendedDouble:
        """Return an output's values in double-double or extended double-double, in the output's shape."""
        found = self._wide_values[self.made(output)]
        if isinstance(found, DoubleDouble):
            return DoubleDouble(self.shaped(output, found.high), self.shaped(output, found.low))
        high, low = (self.shaped(output, part) for part in (found.fraction.high, found.fraction.low))
        return ExtendedDouble(DoubleDouble(high, low), self.shaped(output, found.exponent))

    @lazy
    def _wide_values(self) -> Mapping[Node, Any]:
        assert self.exact is not None
        known = {} if self.budget.replaced else self.exact.wide
        key = tuple(self.inputs.trace.outputs.values())
        if key not in known:
            with np.errstate(all="ignore"):
                known[key] = wide_values(self.inputs, self.budget.replaced)
        return known[key]

    def wide_value(self, node: Node) -> DoubleDouble | ExtendedDouble:
        """Return the values of a node in double-double or extended double-double."""
        found: DoubleDouble | ExtendedDouble = self._wide_values[node]
        return found

    @lazy
    def _widths(self) -> Mapping[str, F64]:
        return {each: self.shaped(each, self.budget.half_width(kept)) for each, kept in self._forms.items()}

    def _kept(self, output: str) -> Form:
        return self._forms[output]

    @lazy
    def _forms(self) -> Mapping[str, Form]:
        return {name: self.budget.output(name, dtype) for name, dtype in self.outputs.items()}

    def axes(self, output: str) -> frozenset[str]:
        """Return the dimensions of an output."""
        return self._axes[output]

    @lazy
    def _axes(self) -> Mapping[str, frozenset[str]]:
        outputs = self.inputs.trace.outputs.items()
        return {output: node.dims | frozenset(self.dims.get(output, ())) for output, node in outputs}

    def shaped(self, output: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return values that broadcast to an output, broadcast and in the output's shape."""
        if output not in self._shapes:
            dims, extents = self.axes(output), self.inputs.extents
            full = tuple(extents[dim] if dim in dims else 1 for dim in self.inputs.trace.dims)
            self._shapes[output] = full, self.shape(output)
        full, shape = self._shapes[output]
        return (values if values.shape == full else np.broadcast_to(values, full)).reshape(shape)

    @lazy
    def _shapes(self) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return a cache of two shapes of each output: with an axis for each dimension of the trace, and with its own
        axes only."""
        return {}


def dependent(
    inputs: Inputs, doubts: Mapping[Node, Mask], same: Mapping[Node, Mask] = MappingProxyType({})
) -> Mapping[Node, Mask]:
    """Return masks, by node, of the elements that depend on a marked element in `doubts`. A `where` between two equal
    values, marked in `same`, does not depend on its condition."""
    found, no = dict[Node, Mask](), np.zeros((1,) * len(inputs.trace.dims), bool)
    for node in inputs.trace.nodes:
        found[node] = _reduced(inputs, node, doubts.get(node, no))
        for place, arg in enumerate(node.args):
            of_table = node.kind == "take" and not place
            each = found[arg] & ~same[node] if node in same and not place else found[arg]
            found[node] = found[node] | (_taken if of_table else _reduced)(inputs, node, each)
    return found


def _taken(inputs: Inputs, node: Node, mask: Mask) -> Mask:
    """Return the mask of the elements that an index takes from a table, or of all if the places depend on a tensor."""
    (axis,), index = inputs.axes(node), node.args[1]
    if not mask.any() or mask.shape[axis] == 1 or any(each.kind == "tensor" for each in ordered([index])):
        return _reduced(inputs, node, mask)
    places = evaluate(replace(inputs, trace=replace(inputs.trace, outputs={"index": index})), Float64())[index]
    places = inputs.own_places(places, (axis,), Float64())
    return np.asarray(took(mask, places, axis, np.zeros((1,) * mask.ndim, bool)))


def _reduced(inputs: Inputs, node: Node, mask: Mask) -> Mask:
    if node.kind not in (*REDUCTIONS, "take", "scan", *SELECTS):
        return mask
    return np.asarray(np.logical_or.reduce(mask, axis=inputs.axes(node), keepdims=True))
