"""Nodes: the values of a formula. They are symbolic tensors; Python's operators on nodes make other nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from oracles.elementary import FormulaError
from oracles.elementary.functions import NAMES, function
from oracles.lazy import lazy

if TYPE_CHECKING:
    from oracles.elementary.function import Elementary

Kind = Literal[
    "tensor", "parameter", "constant", "extent", "position",
    "add", "subtract", "multiply", "divide", "negate", "function", "pair",
    "sum", "max", "dot", "welford_mean", "welford_squares", "online", "online_dot",
    "where", "at_most", "less", "point", "take", "scan", "ranked", "place", "within",
]  # fmt: skip
REDUCTIONS: tuple[Kind, ...] = ("sum", "max", "dot", "welford_mean", "welford_squares", "online", "online_dot")
CONTRACTIONS: tuple[Kind, ...] = ("dot", "online_dot")
"""Kinds of nodes that sum up the products of their first two arguments."""
_EXACT: tuple[Kind, ...] = ("where", "point", "negate", "max", "at_most", "less", "take", "ranked", "place")
EITHER, FIRST, LAST = 0.0, 1.0, 2.0
"""Which place is chosen if several elements are equal: any of their places, the first, or the last."""
SELECTS: tuple[Kind, ...] = ("ranked", "place")
COMPARED: tuple[Kind, ...] = ("at_most", "less")
OF_TWO = ("atan2", "hypot", "pow")
"""The names of the functions of two values, see `oracles.formula.pairs`."""
TOLD: tuple[Kind, ...] = ("at_most", "less", "place")
"""Kinds of nodes whose values are conditions or places."""

READS: ContextVar[bool] = ContextVar("READS", default=False)
"""Whether a formula is now run on nodes to make its graph."""


@dataclass(frozen=True, eq=False)
class Node:
    """One value of a formula. Nodes are compared by identity; while a formula is read, `==` makes a condition."""

    kind: Kind
    args: tuple[Node, ...] = ()
    dims: frozenset[str] = frozenset()
    label: str = ""
    """The name of a tensor, a parameter or an elementary function; the dimension of a position or a `take`; the
    dimensions of a reduction or an extent, such as "c s"."""
    value: float = 0.0
    """The value of a constant; the constant of a function; or, for a `place`, `EITHER`, `FIRST` or `LAST`."""
    low: float = 0.0
    """The low part of the constant: the constant is `value` + `low`, of which float64 holds only `value`."""
    count: Node | None = None
    """The extent of a position's dimension, if it follows from other extents; see `oracles.formula.made`."""

    @lazy
    def function(self) -> Elementary:
        """Return the record of the elementary function whose value the node is."""
        return function(self.label, self.value, self.low)

    @lazy
    def over(self) -> tuple[str, ...]:
        """Return the dimensions that the node reduces, counts or takes from; most nodes have one."""
        return tuple(self.label.split())

    @property
    def operation(self) -> str:
        """Return the name of the elementary function, or else the kind."""
        return self.label if self.kind in ("function", "pair") else self.kind

    @lazy
    def is_exact(self) -> bool:
        """Whether the node rounds nothing in any dtype: it moves, picks or compares values, or is an exact function."""
        return self.kind in _EXACT or (self.kind == "function" and self.function.is_exact)

    def made_of(self, others: Mapping[Node, Node]) -> Node:
        """Return the node with each argument replaced as `others` says; the node itself if no argument changes."""
        args = tuple(others[arg] for arg in self.args)
        same = all(new is old for new, old in zip(args, self.args, strict=True))
        return self if same else replace(self, args=args)

    def apply(self, function: str, constant: float = 0.0, low: float = 0.0) -> Node:
        """Return the node of the named elementary function of this value. A family such as pow takes a constant."""
        return Node("function", (self,), self.dims, function, constant, low)

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
        return self.apply("abs")

    def __le__(self, other: Operand) -> Node:
        return of_two("at_most", self, other)

    def __lt__(self, other: Operand) -> Node:
        return of_two("less", self, other)

    def __ge__(self, other: Operand) -> Node:
        return of_two("at_most", other, self)

    def __gt__(self, other: Operand) -> Node:
        return of_two("less", other, self)

    def __eq__(self, other: Operand | None) -> Node:  # type: ignore[override]
        if other is None or not READS.get():  # an optional input that is present is not None
            return NotImplemented
        return of_two("at_most", self, other) & of_two("at_most", other, self)

    def __ne__(self, other: Operand | None) -> Node:  # type: ignore[override]
        return ~(self == other) if READS.get() and other is not None else NotImplemented

    __hash__ = object.__hash__

    def __and__(self, other: Operand) -> Node:
        return chosen(self, chosen(other, 1.0, 0.0), 0.0) > 0.0

    def __or__(self, other: Operand) -> Node:
        return chosen(self, 1.0, chosen(other, 1.0, 0.0)) > 0.0

    def __invert__(self) -> Node:
        return chosen(self, 0.0, 1.0) > 0.0

    def __bool__(self) -> bool:
        raise FormulaError("a formula cannot branch on a value that it calculates: use where(mask, a, b)")

    def __float__(self) -> float:
        raise FormulaError("a value of a formula is no number yet: use functions such as f.exp, not those of math")

    def __array_ufunc__(self, function: Any, method: str, *args: Any, **options: Any) -> Node:
        found = _OPERATORS.get(function.__name__) if method == "__call__" and not options else None
        if found is None:
            _refuse_foreign("numpy", "sum" if method == "reduce" else function.__name__)
        made: Node = found(*(each if isinstance(each, Node) else float(each) for each in args))
        return made

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        _refuse_foreign("numpy", function.__name__)

    @classmethod
    def __torch_function__(cls, function: Any, *_: object) -> NoReturn:
        _refuse_foreign("torch", function.__name__)


Operand = Node | float | int


def lifted(value: Operand) -> Node:
    """Return a number as a node, and a node unchanged."""
    return value if isinstance(value, Node) else Node("constant", value=float(value))


def of_two(kind: Kind, a: Operand, b: Operand) -> Node:
    args = lifted(a), lifted(b)
    return Node(kind, args, args[0].dims | args[1].dims)


def paired(name: str, a: Operand, b: Operand) -> Node:
    """Return the node of a function of two values."""
    return replace(of_two("pair", a, b), label=name)


def chosen(mask: Operand, value: Operand, other: Operand) -> Node:
    """Return `value` where the mask is set, else `other`. A mask is a comparison, or is set where it is above 0."""
    flag = lifted(mask)
    args = flag if flag.kind in COMPARED else flag > 0.0, as_number(lifted(value)), as_number(lifted(other))
    return Node("where", args, frozenset().union(*(each.dims for each in args)))


def as_number(node: Node) -> Node:
    """Return a comparison as a node that is 1 where it holds and 0 elsewhere; return other nodes unchanged."""
    return chosen(node, 1.0, 0.0) if node.kind in COMPARED else node


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne, "negative": operator.neg,
}  # fmt: skip
"""Python's operators, as NumPy calls them for its own numbers on the left: `np.float32(2) * x`."""
_HERE: Mapping[str, str] = {
    "absolute": "abs", "fabs": "abs", "sum": "total", "mean": "avg", "max": "greatest", "amax": "greatest",
    "matmul": "dot", "mm": "dot", "bmm": "dot", "einsum": "dot", "inner": "dot", "power": "pow", "rint": "round",
    "expit": "sigmoid", "arctan": "atan", "arcsin": "asin", "arccos": "acos", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh",
}  # fmt: skip
_OWN = ("where", "take", "dot", "argmax", "argmin", "argsort", "sort", "topk")


def _refuse_foreign(library: str, name: str) -> NoReturn:
    own = _HERE.get(name, name)
    known = own in NAMES or own in _OWN or own in _HERE.values()
    instead = f"f.{own}" if known else "operators and functions of fuzz.formula, such as f.exp and f.total"
    raise FormulaError(f"{library}.{name} knows no value of a formula: use {instead}")


def ordered(roots: Iterable[Node]) -> Iterator[Node]:
    """Yield the roots and all nodes that they are made from, each once, after its own arguments."""
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
