"""What the outputs of a formula may be: enclosures of all elements in float64, and bounds of single ones in mpmath.

The two tiers differ in the centre. The half-width around it is the same number by definition, that of
`oracles.formula.budget`; the fast tier takes off, or adds, what its own centre may be wrong by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.budget import sum_budget
from oracles.doubledouble import F64
from oracles.dtypes import form
from oracles.elementary import float64
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED, Enclosure
from oracles.formula.budget import Budget
from oracles.formula.centre import Inputs, element
from oracles.formula.contract import Contract
from oracles.formula.forms import Form
from oracles.formula.trace import FUNCTIONS, FormulaError, Node
from oracles.lazy import lazy
from oracles.precise import Bounds
from oracles.rounding import round_to

_U64 = 2.0**-53


@dataclass(frozen=True, eq=False)
class Conformance:
    """What outputs may be under one contract."""

    inputs: Inputs
    contract: Contract
    outputs: Mapping[str, str]
    """The dtype of each output."""
    structured: bool = False

    def __post_init__(self) -> None:
        unknown = {*self.outputs} - {*self.inputs.trace.outputs}
        if unknown:
            raise FormulaError(
                f"no output {', '.join(sorted(unknown))}; there are {', '.join(self.inputs.trace.outputs)}"
            )
        if "f64" in (self.contract.compute, *self.contract.dtypes.values()):
            raise FormulaError("a centre in float64 cannot enclose what is calculated in f64")

    @lazy
    def budget(self) -> Budget:
        """The forms of all values."""
        return Budget(self.inputs, self.contract, self.structured)

    def shape(self, output: str) -> tuple[int, ...]:
        """The extents of an output, in the order of the trace's dimensions."""
        dims = self.inputs.trace.outputs[output].dims
        return tuple(self.inputs.extents[dim] for dim in self.inputs.trace.dims if dim in dims)

    def enclosure(self, output: str) -> Enclosure:
        """The conformance sets of all elements of an output, in its shape."""
        dtype, kept = form(self.outputs[output]), self.budget.output(output, self.outputs[output])
        with np.errstate(all="ignore"):
            centre, width = self._shaped(output, kept.centre), self._shaped(output, self.budget.half_width(kept))
            own = width * self.own_share + np.abs(centre) * 2 * _U64
            own = np.where(np.isfinite(centre), own, 0.0)
            narrow, wide = np.maximum(width - own, 0.0), width + own
            inner = round_to(centre - narrow, dtype), round_to(centre + narrow, dtype)
            outer = round_to(centre - wide, dtype), round_to(centre + wide, dtype)
        return Enclosure(
            dtype, centre, width, width, inner, outer, nan=self._nan(centre, outer[1], dtype.infinities),
            unjudged=self._unjudged(output, kept, width),
        )  # fmt: skip

    def bounds(self, output: str, index: Sequence[int]) -> Bounds:
        """What one element may be, at mpmath's current working precision."""
        dtype, kept = form(self.outputs[output]), self.budget.output(output, self.outputs[output])
        node, at = self.inputs.trace.outputs[output], tuple(index)
        quick = float(self._shaped(output, kept.centre)[at])
        width = float(self._shaped(output, self.budget.half_width(kept))[at])
        marked = self._unjudged(output, kept, self._shaped(output, self.budget.half_width(kept)))
        if marked is not None and marked[at]:
            return Bounds(dtype, quick, -np.inf, np.inf, None, ALLOWED)
        if not np.isfinite(quick):  # what overflows, or is no number, follows from the formula in float64
            return Bounds(dtype, quick, quick, quick, None, REQUIRED if np.isnan(quick) else FORBIDDEN)
        dims = [dim for dim in self.inputs.trace.dims if dim in node.dims]
        centre = element(self.inputs, node, dict(zip(dims, at, strict=True)), self.budget.infinite)
        return Bounds(dtype, centre, centre - width, centre + width, None)

    @lazy
    def own_share(self) -> float:
        """The error of the float64 centre, as a share of the half-width, the last operation apart: half-widths grow at
        least in proportion to the error of each operation, and float64's is smaller by this factor at most."""
        return max((self._share(node) for node in self.inputs.trace.nodes if node.args), default=0.0)

    def _share(self, node: Node) -> float:
        u = self.budget.dtype(node).u
        if node.kind in ("sum", "dot"):
            n = self.inputs.extents[node.label]
            chain = self.contract.order(self.inputs.trace.names.get(node, ""), node.label).chain(n)
            return (
                n * _U64 / min(sum_budget(self.budget.dtype(node), chain, each)[1] for each in (False, True))
                if n > 1
                else 0.0
            )
        if node.kind in FUNCTIONS:
            return float64.BOUNDS[node.kind].relative / (2 * u * self.contract.ulp(node.kind))
        return _U64 / u

    def _shaped(self, output: str, values: F64) -> F64:
        """Values that broadcast to an output, in its shape."""
        dims = self.inputs.trace.outputs[output].dims
        full = [self.inputs.extents[dim] if dim in dims else 1 for dim in self.inputs.trace.dims]
        return np.broadcast_to(values, full).reshape(self.shape(output))

    def _nan(self, centre: F64, outer: F64, infinities: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]] | None:
        wrong = np.isnan(centre)
        beyond = ~infinities & np.isinf(outer)  # without an infinity NaN is what an overflow leaves
        if not (wrong.any() or beyond.any()):
            return None
        return np.where(wrong, REQUIRED, np.where(beyond, ALLOWED, FORBIDDEN)).astype(np.int8)

    def _unjudged(self, output: str, kept: Form, width: F64) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None:
        """What may overflow on the way, and where the errors have no bound: of these the contract says nothing."""
        marked = np.isnan(width) | np.isinf(width)
        if kept.may is not None:
            dims = self.inputs.trace.outputs[output].dims
            full = [self.inputs.extents[dim] if dim in dims else 1 for dim in self.inputs.trace.dims]
            marked = marked | np.broadcast_to(kept.may, full).reshape(self.shape(output))
        return marked if marked.any() else None
