"""Centres: exact values of one formula for many problems at once, in float64.

Rows of all lengths are joined in flat arrays, so that many problems cost as many calls of NumPy as one. Each row is
calculated by itself, so that its values have the same bits whatever rows it is joined with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.enclosure import Mask
from oracles.formula.affine.reductions import are_alike
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.lengths import Places, Ragged, joined
from oracles.formula.trace import FormulaError, Node
from oracles.lazy import lazy
from oracles.tiers.joined import RowGroup
from oracles.tiers.plan import ROOM, FormulaPlan, Site

_Key = TypeVar("_Key", bound=Hashable)


class Centres:
    """The centres of all nodes of a formula. A node has one value for each row, or one for each element of a row."""

    def __init__(self, units: Sequence[tuple[RowGroup, FormulaPlan]]) -> None:
        """Calculate the centres for these groups of rows, each given with the plan of its problem. All plans must be of
        the same formula nodes."""
        self.units, self.nodes, self._dims = units, units[0][1].nodes, units[0][1].trace.dims
        self.rows = Ragged.of(problem.rows for problem, _ in units)
        """The rows of each problem."""
        self.lengths = np.array([problem.length for problem, _ in units])
        self.elements = Ragged(self.rows.spread(self.lengths))
        """The elements of each row."""
        self.lost = np.zeros(len(self.elements.lengths), bool)
        """Mask of the rows in which a rounding overflows, although it need not overflow to infinity in every kernel."""
        self.values: dict[Node, F64] = {}
        """The values of each node, by row or by element, as flat arrays."""
        self._taken: dict[tuple[Node, int], F64] = {}
        self._spread: dict[Node, F64] = {}
        self._alike: dict[tuple[Node, int, Format], Mask] = {}
        for node in self.nodes:
            found = self._step(node) if node.args else self._leaf(node)
            self.values[node] = self._rounded((node, None), found, self.is_of_rows(node))

    def taken(self, node: Node, place: int) -> F64:
        """Return an argument of a node, rounded as the node uses it."""
        arg = node.args[place]
        if (node, place) not in self._dtypes:
            return self.values[arg]
        if (node, place) not in self._taken:
            self._taken[node, place] = self._rounded((node, place), self.values[arg], True)
        return self._taken[node, place]

    @lazy
    def _dtypes(self) -> Mapping[Site, Sequence[Format | None]]:
        """Return, by site, the dtype to which each problem rounds there; None if it does not round."""
        sites = dict.fromkeys(site for _, plan in self.units for site in plan.rounded)
        return {site: [plan.rounded.get(site) for _, plan in self.units] for site in sites}

    @lazy
    def _kept(self) -> Mapping[Node, Sequence[int | None]]:
        """Return, for each addition in which some problem adds a zero, the index of the operand that equals the sum, by
        problem; None for problems that add no zero there."""
        nodes = dict.fromkeys(node for _, plan in self.units for node in plan.same)
        return {
            node: [node.args.index(plan.same[node]) if node in plan.same else None for _, plan in self.units]
            for node in nodes
        }

    def _rounded(self, site: Site, values: F64, of_rows: bool) -> F64:
        """Return the values at a site, rounded to the dtype of each problem."""
        dtypes = self._dtypes.get(site)
        if dtypes is None:
            return values
        found = (self.rows if of_rows else self._of_problem).rounded(values, dtypes)
        over = np.isinf(found) & np.isfinite(values)
        if over.any():
            over = over if of_rows else np.logical_or.reduceat(over, self.elements.starts)
            self.lost |= over & ~self.rows.spread(np.array([plan.overflows(site) for _, plan in self.units]))
        return found

    def _of_each(self, keys: Sequence[_Key], values: Callable[[_Key], F64], of_rows: bool) -> F64:
        """Return the values of all problems. `keys` has one key for each, and `values` returns the values for a key."""
        first, *others = dict.fromkeys(keys)
        found = values(first)
        for other in others:
            chosen = self.rows.spread(np.array([key == other for key in keys]))
            found = np.where(chosen if of_rows else self.elements.spread(chosen), values(other), found)
        return found

    def is_of_rows(self, node: Node) -> bool:
        """Whether a node has one value for each row."""
        return len(node.dims) < len(self._dims)

    def alike(self, node: Node, problem: int, dtype: Format) -> Mask:
        """Return the mask of a problem's rows in which the terms of a sum are alike, see `are_alike`."""
        key = node, problem, dtype
        if key not in self._alike:
            n = int(self.lengths[problem])
            terms = self.values[node.args[0]][self.places[problem]].reshape(-1, n)
            self._alike[key] = are_alike(terms, (1,), dtype)[:, 0]
        return self._alike[key]

    @lazy
    def places(self) -> Sequence[slice]:
        """Return the slice of each problem's elements."""
        return self._of_problem.slices

    @lazy
    def starts(self) -> Places:
        """Return the place of each problem's first element."""
        return self._of_problem.starts

    @lazy
    def _of_problem(self) -> Ragged:
        return Ragged(self.rows.lengths * self.lengths)

    def magnitudes(self, problems: Sequence[int], *, of_rows: bool) -> tuple[F64, F64]:
        """Return bounds of the smallest and the largest magnitudes of each node, without zeros, infinities and NaN: two
        arrays of shape (nodes, rows) or (nodes, problems), for these problems in order; inf and 0 if there are none."""
        chosen = _Chosen(self, problems, of_rows)
        low: dict[Node, F64] = {}
        high: dict[Node, F64] = {}
        for node in self.nodes:
            low[node], high[node] = self._magnitudes(
                node, chosen, [low[arg] for arg in node.args], [high[a] for a in node.args]
            )
        return np.array([low[node] for node in self.nodes]), np.array([high[node] for node in self.nodes])

    @lazy
    def barred(self) -> Mask:
        """Return the mask of problems with a row in `lost`, or a negative term in a sum of two row values."""
        found = self.lost.copy()
        for node in self.nodes:
            if node.kind == "add" and self.is_of_rows(node):
                found |= (self.taken(node, 0) < 0) | (self.taken(node, 1) < 0)
        return ~self.rows.every(~found)

    @lazy
    def special(self) -> Mask:
        """Return the mask of rows in which a value that was calculated for the row is infinite or NaN."""
        of_rows = (self.values[node] for node in self.nodes if node.args and self.is_of_rows(node))
        return ~np.isfinite(sum(np.abs(values) for values in of_rows) + np.zeros(len(self.elements.lengths)))

    def _leaf(self, node: Node) -> F64:
        if node.kind == "tensor":
            return joined([part.tensor(node.label).astype(np.float64) for part, _ in self.units])
        if node.kind == "constant":
            return np.full(len(self.elements.lengths), node.value)
        if node.kind == "extent":
            return self.rows.spread(self.lengths.astype(np.float64))
        if node.kind == "parameter":
            return self.rows.spread(np.array([problem.parameters[node.label] for problem, _ in self.units]))
        raise FormulaError(f"{node.kind}: not in flat arrays")

    def _step(self, node: Node) -> F64:
        if node not in self._kept:
            return self._operated(node)
        return self._of_each(
            self._kept[node],
            lambda place: self._operated(node) if place is None else self._argument(node, place),
            self.is_of_rows(node),
        )

    def _operated(self, node: Node) -> F64:
        kind, arithmetic = node.kind, Float64()
        if kind == "sum":
            found: F64 = np.add.reduceat(self.values[node.args[0]], self.elements.starts)
            limit = self.rows.spread(np.array([plan.sums[node].limit * ROOM for _, plan in self.units]))
            return np.where(found < limit, found, np.where(np.isnan(found), found, np.inf))
        args = [self._argument(node, place) for place in range(len(node.args))]
        if kind == "point":
            return args[0]
        if kind in ("add", "multiply", "divide"):
            return arithmetic.operate(kind, *args)
        return arithmetic.apply(node.function, args[0])

    def _argument(self, node: Node, place: int) -> F64:
        arg = node.args[place]
        if self.is_of_rows(node) or not self.is_of_rows(arg):
            return self.taken(node, place)
        if (node, place) in self._dtypes:
            return self.elements.spread(self.taken(node, place))
        if arg not in self._spread:
            self._spread[arg] = self.elements.spread(self.values[arg])
        return self._spread[arg]

    def _magnitudes(self, node: Node, chosen: _Chosen, low: Sequence[F64], high: Sequence[F64]) -> tuple[F64, F64]:
        kind, dtypes = node.kind, self._dtypes.get((node, None))
        if dtypes is None and kind == "point":
            return low[0], high[0]
        if dtypes is None and not self.is_of_rows(node):
            if kind == "multiply":
                return low[0] * low[1], high[0] * high[1]
            if kind == "divide":
                return low[0] / high[1], high[0] / low[1]
            if kind == "function" and (power := node.function.power) is not None:
                ends = low[0] ** power, high[0] ** power
                return ends if power > 0 else ends[::-1]
        least, most = chosen.measured(self.values[node], self.is_of_rows(node))
        if dtypes is None or kind != "point":
            return least, most
        passed = chosen.spread([dtype is None for dtype in dtypes])
        return np.where(passed, low[0], least), np.where(passed, high[0], most)


class _Chosen:
    """Some of the joined problems, with the magnitudes of their values by row or by problem."""

    def __init__(self, centres: Centres, problems: Sequence[int], of_rows: bool) -> None:
        self._centres, self._problems, self._of_rows = centres, problems, of_rows
        self._whole = len(problems) == len(centres.units)
        self._rows = Ragged(centres.rows.lengths[problems])
        counts = centres.lengths[problems]
        self._of_problem = Ragged(self._rows.lengths * counts)
        self._elements = Ragged(self._rows.spread(counts)) if of_rows else self._of_problem
        """The elements of each chosen row or problem."""

    def measured(self, values: F64, of_rows: bool) -> tuple[F64, F64]:
        """Return the smallest and the largest magnitude of a node's values, without zeros, infinities and NaN, for each
        row or problem. The values are those of rows or of elements."""
        size = np.abs(values if self._whole else values[self._row_places if of_rows else self._places])
        others = np.flatnonzero(~((size > 0) & (size < np.inf)))
        size[others] = np.inf
        least = self._ends(np.minimum, size, of_rows)
        size[others] = 0.0
        return least, self._ends(np.maximum, size, of_rows)

    def spread(self, values: Sequence[bool]) -> Mask:
        """Return the value of each chosen problem, repeated for its rows if magnitudes are measured by row."""
        of_problem = np.array(values)[self._problems]
        return self._rows.spread(of_problem) if self._of_rows else of_problem

    def _ends(self, end: np.ufunc, size: F64, of_rows: bool) -> F64:
        if of_rows and self._of_rows:
            return size.copy()
        found: F64 = end.reduceat(size, (self._rows if of_rows else self._elements).starts)
        return found

    @lazy
    def _row_places(self) -> Places:
        return self._rows.places_from(self._centres.rows.starts[self._problems])

    @lazy
    def _places(self) -> Places:
        return self._of_problem.places_from(self._centres.starts[self._problems])
