"""The graph of a formula: ordinary Python, run once on symbolic tensors, whose local names its nodes keep.

A formula takes a `Node` for each tensor and parameter and returns its outputs by name:

    def layer_norm(x, weight, eps):
        mean = avg(x, "n")
        var = avg((x - mean) * (x - mean), "n")
        return {"y": (x - mean) * rsqrt(var + eps) * weight}

Values have named dimensions. An operation on two of them has the dimensions of both; a reduction takes one away.

What is selected by order is made of two kinds of nodes: `ranked`, the element of some rank along a dimension, the
largest one first, and `place`, where that stands. Ranks are counted as places are, from positions and extents.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType
from typing import Any, Literal

from oracles.elementary import FormulaError
from oracles.elementary.functions import NAMES
from oracles.formula.chains import ADDING, Chain, chains_of
from oracles.formula.made import Counts, counts_of, extents_of
from oracles.formula.node import (
    CONTRACTIONS,
    EITHER,
    FIRST,
    LAST,
    READS,
    REDUCTIONS,
    SELECTS,
    Kind,
    Node,
    Operand,
    as_number,
    chosen,
    lifted,
    ordered,
)
from oracles.formula.shares import Shares, shares_of
from oracles.lazy import lazy

__all__ = [
    "REDUCTIONS", "Along", "Formula", "FormulaError", "Kind", "Node", "Operand", "Outputs", "Trace", "argmax",
    "argmin", "argsort", "avg", "cumprod", "dot", "elementary", "extent", "greatest", "lifted", "online_dot",
    "online_total", "ordered", "point", "position", "prod", "run", "scan", "sort", "take", "topk", "total", "trace",
    "welford_mean", "welford_squares", "where",
]  # fmt: skip

_MEETING = (*REDUCTIONS, *SELECTS, "take", "position", "extent", "scan")

Outputs = Mapping[str, Node]
Along = str | Sequence[str]
"""A dimension, or several that are reduced as one: "c" or ("c", "s")."""
Formula = Callable[..., Outputs]


def __getattr__(name: str) -> Callable[..., Node]:
    """Return what an elementary function makes of a value, by the function's name."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return elementary(name)


@cache
def elementary(name: str) -> Callable[..., Node]:
    """Return a function that applies an elementary function to a value, and a constant if it has one."""

    def of(value: Operand, constant: float = 0.0) -> Node:
        return lifted(value).apply(name, float(constant))

    of.__name__ = of.__qualname__ = name
    of.__doc__ = f"Elementwise: `kernelfuzz list functions` says what {name} is."
    return of


def total(value: Operand, dim: Along) -> Node:
    """Return the sum along a dimension, or along several in any order of all their terms."""
    return _reduced("sum", dim, lifted(value))


def greatest(value: Operand, dim: Along) -> Node:
    """Return the maximum along a dimension or several."""
    return _reduced("max", dim, lifted(value))


def avg(value: Operand, dim: Along) -> Node:
    """Return the mean along a dimension or several: the sum, divided by the number of terms."""
    return total(value, dim) / extent(dim)


def welford_mean(value: Operand, dim: Along) -> Node:
    """Return the mean along a dimension, kept up to date term by term or joined from parts."""
    return _reduced("welford_mean", dim, lifted(value))


def welford_squares(value: Operand, dim: Along) -> Node:
    """Return the sum of the squared deviations from that mean, kept up to date with it."""
    return _reduced("welford_squares", dim, lifted(value))


def online_total(value: Operand, dim: Along) -> Node:
    """Return the sum of e^(value - maximum) along a dimension, updated together with the maximum: when that grows, the
    sum so far is multiplied by e^(old - new)."""
    return _reduced("online", dim, lifted(value))


def online_dot(share: Node, value: Operand, dim: Along) -> Node:
    """Return the sum of shares e^(score - maximum) times values, kept up to date with the maximum of the scores:
    whenever that grows, the sum so far is multiplied by e^(old - new). Sums of one kernel scale the same shares again
    by the same factors, so that errors of these cancel in a quotient of two. The share may be a `point`: then each is
    rounded before it is multiplied, with its value at that time, not its value at the end."""
    exponential = exponential_of(share)
    shifted = exponential.args[0] if exponential.operation == "exp" else exponential
    if shifted.kind != "subtract":
        raise FormulaError("online_dot: the first argument is no exp(score - maximum), by itself or as a point")
    return _reduced("online_dot", dim, share, lifted(value), shifted.args[0])


def exponential_of(share: Node) -> Node:
    """Return the exponential that a share is before it is rounded at a point."""
    return share.args[0] if share.kind == "point" else share


def dot(a: Operand, b: Operand, dim: Along) -> Node:
    """Return the sum of products along a dimension or several."""
    return _reduced("dot", dim, lifted(a), lifted(b))


def extent(dim: Along) -> Node:
    """Return the number of elements along a dimension, or along several together."""
    return Node("extent", label=_together("extent", dim))


def position(dim: str, count: Operand | None = None) -> Node:
    """Return 0, 1, 2, ... along a dimension: `position("j") <= position("i")` is a causal mask. With a `count` it has
    that many places: a number, or an expression of extents with + - * / and `floor`. Tensors may lack it."""
    return Node("position", dims=frozenset([dim]), label=dim, count=None if count is None else lifted(count))


def where(mask: Operand, value: Operand, other: Operand) -> Node:
    """Return `value` where the mask is set, else `other`. The mask is a condition, made with `<`, `==`, `&`, `~` and so
    on, or a tensor of flags."""
    return chosen(mask, value, other)


def take(table: Node, index: Operand, dim: str, outside: float | None = None) -> Node:
    """Return the elements of the table at these places along a dimension, counted from 0. The index is an integer
    tensor, a number, or calculated from positions and extents, `2.0 * position("o") + position("k") - 1.0`. Where it is
    no place, less than 0, beyond the last one or between two, the result is `outside`; without `outside` it must be a
    place."""
    index = lifted(index)
    if dim not in table.dims:
        raise FormulaError(f"take along {dim!r}: the table has only the dimensions {sorted(table.dims)}")
    args = (table, index) if outside is None else (table, index, Node("constant", value=float(outside)))
    return Node("take", args, table.dims - {dim} | index.dims, dim)


def scan(factor: Operand, value: Operand, dim: str, start: Operand = 0.0) -> Node:
    """Return a linear recurrence along a dimension: h(t) = factor(t) h(t - 1) + value(t), where h(-1) is the start."""
    args = lifted(factor), lifted(value), lifted(start)
    if dim not in args[0].dims | args[1].dims or dim in args[2].dims:
        raise FormulaError(f"scan over {dim!r}: the factor or what is added has it, and the start has not")
    return Node("scan", args, frozenset().union(*(each.dims for each in args)), dim)


def cumprod(value: Operand, dim: str) -> Node:
    """Return the products of all elements up to each along a dimension."""
    return scan(value, 0.0, dim, 1.0)


def prod(value: Operand, dim: str) -> Node:
    """Return the product of all elements along a dimension."""
    return take(cumprod(value, dim), extent(dim) - 1.0, dim, 1.0)


def point(value: Node) -> Node:
    """Return the value, which may be rounded for this one use: to what the contract says, or not at all."""
    return Node("point", (value,), value.dims)


def _reduced(kind: Kind, dim: Along, *args: Node) -> Node:
    dims, label = frozenset().union(*(each.dims for each in args)), _together(kind, dim)
    if missing := [each for each in label.split() if each not in dims]:
        raise FormulaError(f"{kind} over {missing[0]!r}: the value has only the dimensions {sorted(dims)}")
    return Node(kind, args, dims - {*label.split()}, label)


def _together(kind: Kind, dim: Along) -> str:
    """Return the label of a node over these dimensions."""
    names = dim.split() if isinstance(dim, str) else [*dim]
    if not names or len({*names}) < len(names):
        raise FormulaError(f"{kind} over {dim!r}: it takes the name of a dimension, or several such as ('c', 's')")
    return " ".join(names)


@dataclass(frozen=True)
class Trace:
    """A formula as a graph."""

    dims: tuple[str, ...]
    """All dimensions, in the order of array axes."""
    tensors: Mapping[str, tuple[str, ...]]
    """The dimensions of each tensor, in its own order."""
    outputs: Mapping[str, Node]
    locals: Mapping[str, Node] = field(default_factory=dict)
    """Nodes by name: tensors and parameters, then locals of the formula, then outputs."""
    counts: Counts = field(default_factory=dict)
    """The counts of the dimensions whose extents follow from others."""

    @lazy
    def names(self) -> Mapping[Node, str]:
        """Return the first name of each node, by which contracts and explanations refer to it."""
        found: dict[Node, str] = {}
        for name, node in self.locals.items():
            found.setdefault(node, name)
        return found

    @lazy
    def digest(self) -> str:
        """Return sixteen hexadecimal digits that differ if another value is calculated, or the same in another way."""
        nodes = [*ordered([*self.outputs.values(), *self.counts.values()])]
        place = {node: at for at, node in enumerate(nodes)}
        words = [(node.kind, node.label, node.value, node.low, [place[arg] for arg in node.args]) for node in nodes]
        outputs = {name: place[node] for name, node in self.outputs.items()}
        return hashlib.sha256(repr((self.tensors, outputs, words)).encode()).hexdigest()[:16]

    @lazy
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes, each once, after its arguments."""
        return tuple(ordered(self.outputs.values()))

    @lazy
    def meeting(self) -> frozenset[str]:
        """Return the dimensions along which values are combined: they are reduced or picked from, or their places or
        number count. Along any other, slices of the outputs depend only on the same slices of tensors."""
        found = {dim for node in self.nodes if node.kind in _MEETING for dim in node.over}
        return frozenset(found.union(*map(extents_of, self.counts.values())))

    @lazy
    def orders(self) -> Mapping[str, Sequence[int]]:
        """Return the axes of each tensor, in the order of the dimensions."""
        return {
            name: sorted(range(len(dims)), key=lambda place: self.dims.index(dims[place]))
            for name, dims in self.tensors.items()
        }

    @lazy
    def uses(self) -> Mapping[Node, Sequence[Node]]:
        """Return the nodes that use each node, once for each use."""
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for arg in node.args:
                found[arg].append(node)
        return found

    @lazy
    def added(self) -> frozenset[Node]:
        """Return the arguments of additions: a kernel may leave out the rounding of such a product."""
        found = (node for node in self.nodes if node.kind in ("add", "subtract", "sum"))
        return frozenset(arg for node in found for arg in node.args)

    @lazy
    def started(self) -> frozenset[Node]:
        """Return the sums that are only added to something, so that they may start with it."""
        found = (node for node in self.nodes if node.kind in ("sum", "dot") and node not in self.outputs.values())

        def is_start(use: Node, node: Node) -> bool:
            return use.kind in ADDING and use.dims.isdisjoint(node.over)

        return frozenset(node for node in found if all(is_start(use, node) for use in self.uses[node]))

    @lazy
    def chains(self) -> Mapping[Node, Chain]:
        """Return the sums whose terms are added one by one, by their last additions."""
        return chains_of(self.nodes, self.uses, self.outputs.values(), self.started)

    @lazy
    def shares(self) -> Shares:
        """Return the nodes that are shares of their sum, as in a softmax, and the means that they weight."""
        return shares_of(self.nodes)

    @lazy
    def joined(self) -> frozenset[Node]:
        """Return the nodes that go into a sum over one of their dimensions, alone or in a product, and are used
        elsewhere too: their errors are in both, see `oracles.formula.affine.errors`. Squares count little beside that
        and are left out."""
        found = set[Node]()
        for node in self.nodes:
            if node.kind in ("sum", *CONTRACTIONS):
                for arg in node.args[:2]:
                    terms = [arg, *(arg.args if arg.kind == "multiply" and len({*arg.args}) > 1 else ())]
                    found.update(each for each in terms if not each.dims.isdisjoint(node.over) and each.args)
        return frozenset(node for node in found if len({*self.uses[node]}) > 1)

    def named(self, name: str) -> Node:
        """Return the node of a local name. Raises FormulaError if there is none."""
        if name in self.locals:
            return self.locals[name]
        raise FormulaError(f"the formula has no local {name!r}; it has {', '.join(self.locals)}")


def trace(formula: Formula, tensors: Mapping[str, Sequence[str]], parameters: Sequence[str] = ()) -> Trace:
    """Return the graph of a formula for these tensors, with their dimensions, and parameters. Raises FormulaError."""
    given = {name: Node("tensor", dims=frozenset(dims), label=name) for name, dims in tensors.items()}
    given |= {name: Node("parameter", label=name) for name in parameters}
    outputs, found = run(formula, given)
    if not isinstance(outputs, Mapping):
        raise FormulaError("the formula must return its outputs by name, such as {'y': y}")
    for name, node in outputs.items():
        if not isinstance(node, Node):
            raise FormulaError(f"output {name!r} is {node!r}, not a value that the formula calculates")
    outputs = {name: as_number(node) for name, node in outputs.items()}
    order = tuple(dict.fromkeys(dim for dims in tensors.values() for dim in dims))
    counts = counts_of(ordered(outputs.values()))
    called = {**given, **{name: node for name, node in found.items() if name not in given}}
    called |= {name: node for name, node in outputs.items() if name not in called}
    own = {name: tuple(dims) for name, dims in tensors.items()}
    return Trace((*order, *(dim for dim in counts if dim not in order)), own, outputs, called, counts)


_OWN = (__name__, Node.__module__)
"""The modules whose functions have no locals of a formula."""


def run(function: Callable[..., Any], given: Mapping[str, Node]) -> tuple[Any, Mapping[str, Node]]:
    """Return the result of a function, its locals, and those of functions that it calls, its own first. Python has no
    other way to learn their names."""
    code: CodeType | None = getattr(function, "__code__", None)
    own, called = dict[str, Node](), dict[str, Node]()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame.f_globals.get("__name__") not in _OWN:
            found = {name: each for name, each in frame.f_locals.items() if isinstance(each, Node)}
            (own if frame.f_code is code else called).update(found)

    before: Any = sys.getprofile()
    reads = READS.set(True)
    sys.setprofile(look)
    try:
        returned = function(**given)
    finally:
        READS.reset(reads)
        if callable(before) or before is None:
            sys.setprofile(before)
        else:  # cProfile's is set by an object that can only be enabled again
            before.enable()
    return returned, {**own, **{name: each for name, each in called.items() if name not in own}}


Ties = Literal["either", "first", "last"]
"""The order of equal elements: any, or the one at the lowest place first, or the highest. If the values are calculated,
the place of any element that may be equally large is right."""
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
    """Return the element of a rank along a dimension; rank 0 is the largest."""
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
