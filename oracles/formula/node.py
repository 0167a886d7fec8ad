"""Nodes: the values of a formula, symbolic tensors that Python's operators make others of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from oracles.elementary.functions import function
from oracles.lazy import lazy

if TYPE_CHECKING:
    from oracles.elementary.function import Elementary

Kind = Literal[
    "tensor", "parameter", "constant", "extent", "position",
    "add", "subtract", "multiply", "divide", "negate", "function",
    "sum", "max", "dot", "welford_mean", "welford_squares", "online",
    "where", "at_most", "less", "point", "take",
]  # fmt: skip
REDUCTIONS: tuple[Kind, ...] = ("sum", "max", "dot", "welford_mean", "welford_squares", "online")
_EXACT: tuple[Kind, ...] = ("where", "point", "negate", "max", "at_most", "less", "take")


class FormulaError(ValueError):
    """A formula that cannot be read. The message says which part of it."""


@dataclass(frozen=True, eq=False)
class Node:
    """One value of a formula. Nodes are told apart by identity."""

    kind: Kind
    args: tuple[Node, ...] = ()
    dims: frozenset[str] = frozenset()
    label: str = ""
    """The name of a tensor, a parameter or an elementary function; the dimension of a reduction, an extent or a
    position."""
    value: float = 0.0
    """The value of a constant; the constant of an elementary function that has one."""
    low: float = 0.0
    """What such a constant is more than that, where float64 does not hold it."""

    @lazy
    def function(self) -> Elementary:
        """The record of the elementary function that a node of this kind is a value of."""
        return function(self.label, self.value, self.low)

    @property
    def operation(self) -> str:
        """The name of what makes the value: of an elementary function, or else the kind."""
        return self.label if self.kind == "function" else self.kind

    @lazy
    def is_exact(self) -> bool:
        """Whether it changes no bits of its arguments, or none that could be lost: it takes values of any dtype."""
        return self.kind in _EXACT or (self.kind == "function" and self.function.is_exact)

    def __add__(self, other: Operand) -> Node:
        return of_two("add", self, other)

    def __radd__(self, other: Operand) -> Node:
        return of_two("add", other, self)

    def __sub__(self, other: Operand) -> Node:
        return of_two("subtract", self, other)

    def __rsub__(self, other: Operand) -> Node:
        return of_two("subtract", other, self)

    def __mul__(self, other: Operand) -> Node:
        return of_two("multiply", self, other)

    def __rmul__(self, other: Operand) -> Node:
        return of_two("multiply", other, self)

    def __truediv__(self, other: Operand) -> Node:
        return of_two("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Node:
        return of_two("divide", other, self)

    def __neg__(self) -> Node:
        return Node("negate", (self,), self.dims)

    def __abs__(self) -> Node:
        return Node("function", (self,), self.dims, "abs")

    def __le__(self, other: Operand) -> Node:
        return of_two("at_most", self, other)

    def __lt__(self, other: Operand) -> Node:
        return of_two("less", self, other)

    def __ge__(self, other: Operand) -> Node:
        return of_two("at_most", other, self)

    def __gt__(self, other: Operand) -> Node:
        return of_two("less", other, self)

    def __bool__(self) -> bool:
        raise FormulaError("a formula cannot branch on a value that it calculates: use where(mask, a, b)")


Operand = Node | float | int


def lifted(value: Operand) -> Node:
    """A number as a node; a node as it is."""
    return value if isinstance(value, Node) else Node("constant", value=float(value))


def of_two(kind: Kind, a: Operand, b: Operand) -> Node:
    args = lifted(a), lifted(b)
    return Node(kind, args, args[0].dims | args[1].dims)


def ordered(roots: Iterable[Node]) -> Iterator[Node]:
    """All that the roots are made of, each once, after what it is made of itself."""
    seen: set[Node] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((arg, False) for arg in reversed(node.args) if arg not in seen)
