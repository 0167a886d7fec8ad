"""Relative forms: if errors are proportional to values, one number says how far all elements of a row may stray.

In products, quotients, roots and sums of terms that are never negative no error cancels, and each is proportional to
its value. As long as nothing under- or overflows, the form (`oracles.formula.affine.forms`) of a value is then c (1 +
r), where r follows from the contract, from the length of the row and from the shares of the addends. Here r is found by
the steps of `oracles.formula.affine.operations` and `reductions`, each divided by its centre. Other formulas and
contracts are left to the next tier.
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
"""The largest share up to which a function's errors are taken from its tangent, see
`oracles.formula.affine.operations`."""


class Rows(Protocol):
    """Exact values of rows, for one formula."""

    def number(self, node: Node, which: int) -> F64:
        """Return one of the numbers of a node (`oracles.tiers.plan`)."""

    def taken(self, node: Node, place: int) -> F64:
        """Return an argument of a node that has one value a row."""

    def alike(self, node: Node) -> Mask:
        """Whether the sum of these terms has errors of the worst case."""

    def exact(self, node: Node) -> Mask | None:
        """Whether every kernel has its values alike; None: in no row."""


@dataclass(frozen=True, eq=False)
class _Errors:
    """The errors of a value relative to it: errors that all elements of a row share, signed; and others."""

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
    """How far each row may stray relative to its values; the rows of all asks, one after the other."""

    def __init__(self, rows: Rows, count: int, nodes: Sequence[Node]) -> None:
        """`count` is the number of rows."""
        self.rows = rows
        self.near: Mask = np.ones(count, bool)
        """Where no share is too large for a tangent."""
        self._found: dict[Node, _Errors] = {}
        for node in nodes:
            args = [self._taken(node, arg) for arg in node.args]
            self._found[node] = self._step(node, args, ERROR) if args else _NONE

    def spread(self, node: Node, last: bool) -> F64 | float:
        """Return how far an output may stray; `last`: its rounding is the output's own."""
        if not last:
            return self._found[node].spread
        return self._step(node, [self._taken(node, arg) for arg in node.args], LAST).spread

    def _taken(self, node: Node, arg: Node) -> _Errors:
        dims = node.dims.union(node.over) if node.kind == "sum" else node.dims
        found = self._found[arg]
        if dims - arg.dims and not isinstance(found.rest, float):  # several elements use the same value of it
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
    """Return the errors; empty where the values are exact."""
    parts = {symbol: np.where(exact, 0.0, coefficient) for symbol, coefficient in found.parts.items()}
    return _Errors(parts, found.rest if isinstance(found.rest, float) else np.where(exact, 0.0, found.rest))


def _rounded(found: _Errors, error: F64) -> _Errors:
    return _Errors(found.parts, found.rest + (1.0 + found.spread) * error)
