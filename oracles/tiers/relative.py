"""Relative forms: if errors are in proportion to values, one number bounds the relative errors of all elements of a
row.

In products, quotients, roots and sums of terms that are never negative, errors do not cancel, and each error is in
proportion to its value. As long as nothing underflows or overflows, the form (`oracles.formula.affine.forms`) of a
value c is then c (1 + r), where r depends on the contract, the length of the row and the shares of the addends. r is
calculated here by the steps of `oracles.formula.affine.operations` and `reductions`, each divided by its centre. The
next tier has other formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oracles.doubledouble import F64
from oracles.formula.affine.forms import DUST, Mask
from oracles.formula.trace import Node
from oracles.tiers.plan import ERROR, LAST, WORST

FAR = 0.05
"""The largest relative error for which a function's errors are calculated by its tangent, see
`oracles.formula.affine.operations`."""


class Rows(Protocol):
    """The values of rows, for one formula, that `RowBounds` asks for."""

    def number(self, node: Node, which: int) -> F64:
        """Return one of the numbers of a node (`oracles.tiers.plan`), for each row."""

    def taken(self, node: Node, place: int) -> F64:
        """Return an argument of a node with one value for each row."""

    def alike(self, node: Node) -> Mask:
        """Return the mask of rows in which a sum may have the errors of the worst case, since its terms are alike."""

    def exact(self, node: Node) -> Mask | None:
        """Return the mask of rows in which all kernels have the same value of a node; None for no row."""


@dataclass(frozen=True, eq=False)
class _Errors:
    """The relative errors of a value: signed ones that a row's elements share, by source; and a bound of the rest."""

    parts: Mapping[Node, F64 | float]
    rest: F64 | float = 0.0

    @property
    def spread(self) -> F64 | float:
        found = self.rest
        for each in self.parts.values():
            found = found + np.abs(each)
        return found


_NONE = _Errors({})


class RowBounds:
    """Bounds of the relative errors of each row, for the joined rows of all queries."""

    def __init__(self, rows: Rows, count: int, nodes: Sequence[Node]) -> None:
        """Calculate the bounds of all nodes for `count` rows."""
        self.rows = rows
        self.near: Mask = np.ones(count, bool)
        """Mask of the rows in which no relative error is too large for a tangent."""
        self._found: dict[Node, _Errors] = {}
        for node in nodes:
            args = [self._taken(node, arg) for arg in node.args]
            self._found[node] = self._step(node, args, ERROR) if args else _NONE

    def spread(self, node: Node, last: bool) -> F64 | float:
        """Return bounds of an output's relative errors; without the `last` rounding if that is the output's own."""
        if not last:
            return self._found[node].spread
        return self._step(node, [self._taken(node, arg) for arg in node.args], LAST).spread

    def _taken(self, node: Node, arg: Node) -> _Errors:
        dims = node.dims.union(node.over) if node.kind == "sum" else node.dims
        found = self._found[arg]
        if dims - arg.dims and not isinstance(found.rest, float):  # several elements share its value
            found = self._found[arg] = _Errors({**found.parts, arg: found.rest})
        return found

    def _step(self, node: Node, args: list[_Errors], which: int) -> _Errors:
        exact = self.rows.exact(node)
        if exact is None:
            return self._inexact(node, args, which)
        return _NONE if exact.all() else _where(exact, self._inexact(node, args, which))

    def _inexact(self, node: Node, args: list[_Errors], which: int) -> _Errors:
        kind = node.kind
        if kind == "point":
            return args[0]
        if kind == "multiply":
            found = _combined(args, (1.0, 1.0), args[0].spread * args[1].spread)
        elif kind == "divide":
            share = args[1].spread
            growth = share / (1 - share)
            self._check(share)
            found = _combined(args, (1.0, -1.0), (share + args[0].spread) * growth)
        elif kind == "add":
            return self._added(node, args, which)
        elif kind == "sum":
            error = np.where(self.rows.alike(node), self.rows.number(node, WORST), self.rows.number(node, ERROR))
            found = _rounded(args[0], error)
            self._check(found.spread)
            return found
        else:
            share = args[0].spread
            self._check(share)
            power = node.function.power
            assert power is not None
            half = abs(power * (power - 1.0)) / 2.0
            found = _combined(args, (power,), half * share**2 * (1 - share) ** (power - 2.0))
        return _rounded(found, self.rows.number(node, which))

    def _added(self, node: Node, args: list[_Errors], which: int) -> _Errors:
        error = self.rows.number(node, which)
        a, b = self.rows.taken(node, 0), self.rows.taken(node, 1)
        total = a + b
        found = _combined(args, (a / total, b / total), 0.0)
        return _rounded(found, np.where((a == 0) | (b == 0), 0.0, error))

    def _check(self, share: F64 | float) -> None:
        self.near &= ~np.asarray(share > FAR)


def _combined(args: list[_Errors], factors: tuple[F64 | float, ...], remainder: F64 | float) -> _Errors:
    parts: dict[Node, F64 | float] = {}
    rest = remainder
    for each, factor in zip(args, factors, strict=True):
        if not each.parts and isinstance(each.rest, float):
            continue
        for symbol, coefficient in each.parts.items():
            parts[symbol] = parts.get(symbol, 0.0) + factor * coefficient
        rest = rest + np.abs(factor) * (each.spread * DUST + each.rest)
    return _Errors(parts, rest)


def _where(exact: Mask, found: _Errors) -> _Errors:
    """Return the errors, set to 0 where the values are exact."""
    parts = {symbol: np.where(exact, 0.0, coefficient) for symbol, coefficient in found.parts.items()}
    return _Errors(parts, found.rest if isinstance(found.rest, float) else np.where(exact, 0.0, found.rest))


def _rounded(found: _Errors, error: F64) -> _Errors:
    return _Errors(found.parts, found.rest + (1.0 + found.spread) * error)
