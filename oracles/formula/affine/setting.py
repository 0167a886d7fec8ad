"""The setting of a budget: one problem under one contract, with the questions that every operation asks of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.budget import sum_budget
from oracles.doubledouble import F64, ULP
from oracles.dtypes import DOUBLE, Format, form
from oracles.elementary.functions import function
from oracles.formula.affine.forms import DUST, Form, Mask, Symbol
from oracles.formula.contract import MAYBE, Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.exact.counts import whole
from oracles.formula.exact.lengths import Extents, Lengths
from oracles.formula.shares import may_be_product
from oracles.formula.trace import REDUCTIONS, Node
from oracles.lazy import lazy
from oracles.summation import Summation, is_biased

_U64 = 2.0**-53
_LEAST_SHARE = 2.0**-30
"""The least result of `SettledProblem.own_share`: half the share for kernels in f32. For kernels with fewer bits the
share would be so small that float64 errs by more than that in the logarithm of a badly known sum, and every row with
such a sum would go to the precise tier."""
_SUNK = 2.0**-1060
"""Smaller errors count as underflow of float64, which rounds them up to as much as twice their size."""


@dataclass(frozen=True)
class JoinedProblem:
    """A problem that is joined with others."""

    contract: Contract
    """The contract; only the orders of sums may differ between joined problems."""
    structured: bool
    extents: Mapping[str, int]
    places: int
    """The number of the problem's rows along the first axis of joined arrays: one if problems are stacked."""


@dataclass(frozen=True)
class Joined:
    """How problems are joined into one."""

    parts: Sequence[JoinedProblem] = ()
    """The problems, in order."""
    lengths: Lengths | Extents | None = None
    parameters: Mapping[str, F64] = field(default_factory=dict)
    """The parameters that differ between problems, as columns."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The dtypes of a problem's outputs, by name."""
    beside: bool = False
    """Whether problems are stacked along a further dimension, `BESIDE`, and not joined row after row."""


ALONE = Joined()


@dataclass(frozen=True)
class SettledProblem:
    """A problem of a formula, with a settled contract."""

    inputs: Inputs
    contract: Contract
    structured: bool = False
    """Whether rounding errors are not random, so that only the worst case is sound."""
    each: Sequence[JoinedProblem] = ()
    """The joined problems, in order; empty for a single problem."""
    endless: bool = False
    """Whether exponents are unbounded, except where a value is rounded at a declared point."""

    def name(self, node: Node) -> str:
        """Return the name of a node in contracts; "" if it has none."""
        return self.inputs.trace.names.get(node, "")

    def dtype(self, node: Node) -> Format:
        """Return the dtype in which a value is calculated."""
        if node not in self._dtypes:
            self._dtypes[node] = self.format(self.contract.dtypes.get(self.name(node), self.contract.compute))
        return self._dtypes[node]

    def format(self, name: str) -> Format:
        """Return the format of this name, with unbounded exponents if the problem is `endless`."""
        return form(name).endless if self.endless else form(name)

    @lazy
    def _dtypes(self) -> dict[Node, Format]:
        return {}

    def is_whole(self, node: Node) -> bool:
        """Whether the values of a node are whole numbers, by the formula."""
        return node in self._whole_nodes

    @lazy
    def _whole_nodes(self) -> frozenset[Node]:
        return whole(self.inputs.trace, self.inputs.integers)

    def order(self, node: Node) -> Summation:
        """Return the order of a sum."""
        return self.contract.order(self.name(node), node.label)

    def sum_errors(self, node: Node, worst_case: bool) -> tuple[F64 | float, F64 | float, bool]:
        """Return the relative error of a sum, its worst case, and whether the two differ. For joined problems there is
        one error for each row."""
        dtype, name, label, over = self.dtype(node), self.name(node), node.label, node.over
        if not self.each:
            order = self.contract.order(name, label)
            chain = order.chain(self.inputs.number(node))
            _, up, differ = sum_budget(dtype, chain, worst_case or is_biased(order))
            return up, sum_budget(dtype, chain, True)[1], differ
        lengths = [math.prod(part.extents[dim] for dim in over) for part in self.each]
        orders = [part.contract.order(name, label) for part in self.each]
        chains = [order.chain(n) for order, n in zip(orders, lengths, strict=True)]
        biased = [worst_case or is_biased(order) for order in orders]
        likely = [sum_budget(dtype, chain, worst) for chain, worst in zip(chains, biased, strict=True)]
        worst = [sum_budget(dtype, chain, True)[1] for chain in chains]
        differ = any(statistical for _, _, statistical in likely)
        return self._by_row([up for _, up, _ in likely]), self._by_row(worst), differ

    def _by_row(self, values: Sequence[float | bool]) -> NDArray[Any]:
        """Return `values`, one for each joined problem, each repeated for its problem's rows; shape (rows, 1, ...)."""
        return np.repeat(values, [part.places for part in self.each]).reshape(
            -1, *(1 for _ in self.inputs.trace.dims[1:])
        )

    @lazy
    def structures(self) -> Mask | bool:
        """Return the mask of rows whose rounding errors are not random, or one answer for all rows."""
        if not self.each:
            return self.structured
        first, *others = {part.structured for part in self.each}
        return self._by_row([part.structured for part in self.each]) if others else first

    def starts(self, node: Node) -> bool:
        """Whether the accumulator of a sum may start with the value that is added to the sum."""
        return self.contract.addend != "last" and node in self.inputs.trace.started

    @lazy
    def sizes(self) -> dict[Node, F64]:
        """Return the cache of the sums of the terms' magnitudes, by the node of the sum."""
        return {}

    @lazy
    def factors(self) -> dict[Node, Symbol]:
        """Return the cache of the errors of the factors that scale shares, by exponential."""
        return {}

    @lazy
    def tops(self) -> dict[Node, F64]:
        """Return the cache of upper bounds of the differences between values and their maximum, by difference."""
        return {}

    def slack(self, values: Node, form: Form) -> F64:
        """Return how far above zero the difference of a value and the maximum may lie, or below zero that of the
        largest value: a product may be unrounded in the difference but rounded in the maximum."""
        found = np.zeros((1,) * form.centre.ndim)
        if self.contract.wider or (self.contract.fused and may_be_product(values)):
            u = max(self.dtype(values).u, self.format(self.contract.compute).u)
            found = np.where(np.isfinite(form.size), 2 * u * form.size, 0.0)
        return found if self.contract.denormals == "preserve" else found + 2 * form.dtype.tiny

    def is_fused(self, node: Node) -> bool:
        """Whether a product may go into a sum without being rounded."""
        return self.contract.fused and node in self.inputs.trace.added

    @lazy
    def _shares(self) -> dict[bool, F64 | float]:
        return {}

    def own_share(self, wide: bool) -> F64 | float:
        """Return an upper bound for the error of a centre in float64 (`wide`: in double-double) as a share of the
        half-width, apart from the last operation: each operation adds at most this share of its own part of the
        half-width. For joined problems there is one number for each row."""
        if wide not in self._shares:
            share: F64 | float = 0.0 if wide else _LEAST_SHARE
            for node in self.inputs.trace.nodes:
                share = np.maximum(share, self._share(node, wide)) if node.args else share
            self._shares[wide] = share
        return self._shares[wide]

    def _share(self, node: Node, wide: bool) -> F64 | float:
        u, own = self.dtype(node).u, ULP if wide else _U64
        share: F64 | float = own / u
        if (node.kind == "function" and not node.is_exact) or node.kind == "online":
            of = function("exp") if node.kind == "online" else node.function
            bound = of.double.bound if wide else of.float64.bound
            share = bound.relative / (2 * u * self.contract.ulp(of.name))
        if node.kind == "pair":
            from oracles.formula.pairs import own_bound

            return own_bound(wide).relative / (2 * u * self.contract.ulp(node.label))
        if node.kind in REDUCTIONS and node.kind != "max":
            n = self.inputs.count(self.inputs.axes(node))
            if np.all(n > 1):
                return np.maximum(n * own / np.minimum(*self.sum_errors(node, False)[:2]), share)
            return share if node.kind == "online" else 0.0
        return share

    @lazy
    def wide(self) -> bool:
        """Whether some operation is calculated in float64, so that a float64 centre has errors as large as kernels'."""
        return self.contract.is_wide

    @lazy
    def mixed(self) -> bool:
        """Whether something is calculated in float64, and something is rounded to fewer bits."""
        used = (self.contract.compute, *self.contract.dtypes.values(), *self.contract.points.values())
        return self.wide and any(dtype.removeprefix(MAYBE) != DOUBLE.name for dtype in used)

    def far(self, form: Form) -> F64:
        """Return an upper bound, for the remainder of a tangent, of the distance of a kernel's value and of the exact
        value from the form's centre: the square of the bound is at least the sum of the squares of both distances."""
        if not self.wide or form.is_exact:
            return form.spread
        return np.where(form.spread > _SUNK, form.spread * (1 + 2 * self.own_share(False)), form.spread)

    def lowest(self, form: Form) -> F64:
        """Return the smallest value that a kernel or the exact formula may have."""
        if not self.wide:
            return form.lowest
        found: F64 = form.centre - self.far(form) * (1 + DUST)
        return found if form.least is None else np.fmax(found, form.least)

    @lazy
    def ends(self) -> float:
        """Return how many times farther a function's values may lie apart than from its value at the centre."""
        return 2.0 if self.wide else 1.0
