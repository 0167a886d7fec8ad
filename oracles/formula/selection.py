"""What a formula selects by order: places of maxima, the largest elements, rows that are sorted.

Two kinds of nodes say all of it: `ranked`, the element of some rank along a dimension, the largest one first, and
`place`, where that stands. A rank is counted as places are, from positions and extents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from oracles.elementary import FormulaError
from oracles.formula.node import EITHER, FIRST, LAST, Node, Operand, lifted
from oracles.formula.trace import extent, position

Ties = Literal["either", "first", "last"]
"""Which of several equal elements comes first, where every kernel has them alike: any, that of the lowest place, or
that of the highest. Of what is calculated on the way any place whose element may be as large is right."""
TIES: Mapping[Ties, float] = {"either": EITHER, "first": FIRST, "last": LAST}


def argmax(value: Operand, dim: str, ties: Ties = "either") -> Node:
    """Return the place of the maximum along a dimension, counted from 0."""
    return place(lifted(value), 0, dim, ties)


def argmin(value: Operand, dim: str, ties: Ties = "either") -> Node:
    """Return the place of the minimum along a dimension, counted from 0."""
    return argmax(-lifted(value), dim, ties)


def topk(
    value: Operand, k: Operand, dim: str, into: str = "k", ties: Ties = "either", *, largest: bool = True
) -> tuple[Node, Node]:
    """Return the k largest elements along a dimension, or the smallest ones, the outermost first, and their places:
    both lie along the dimension `into`, which no tensor has. k is a number, or follows from extents."""
    count = Node("within", (lifted(k), extent(dim)))
    return _both(lifted(value), position(into, count), dim, ties, largest)


def sort(value: Operand, dim: str, ties: Ties = "either", *, descending: bool = False) -> tuple[Node, Node]:
    """Return the elements along a dimension in order, and the places where they stood."""
    return _both(lifted(value), position(dim), dim, ties, descending)


def argsort(value: Operand, dim: str, ties: Ties = "either", *, descending: bool = False) -> Node:
    """Return the places along a dimension in the order of their elements."""
    return sort(value, dim, ties, descending=descending)[1]


def _both(value: Node, rank: Node, dim: str, ties: Ties, largest: bool) -> tuple[Node, Node]:
    if largest:
        return ranked(value, rank, dim), place(value, rank, dim, ties)
    return -ranked(-value, rank, dim), place(-value, rank, dim, ties)


def ranked(value: Node, rank: Operand, dim: str) -> Node:
    """Return the element of a rank along a dimension: 0 is that of the largest one."""
    return _selected("ranked", value, rank, dim)


def place(value: Node, rank: Operand, dim: str, ties: Ties = "either") -> Node:
    """Return the place of that element."""
    if ties not in TIES:
        raise FormulaError(f"ties={ties!r}: it is one of {', '.join(map(repr, TIES))}")
    return _selected("place", value, rank, dim, TIES[ties])


def _selected(kind: Literal["ranked", "place"], value: Node, rank: Operand, dim: str, ties: float = 0.0) -> Node:
    at = lifted(rank)
    if dim not in value.dims:
        raise FormulaError(f"{kind} along {dim!r}: the value has only the dimensions {sorted(value.dims)}")
    return Node(kind, (value, at), value.dims - {dim} | at.dims, dim, ties)
