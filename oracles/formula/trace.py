"""The graph of a formula: a Python function, run once on symbolic tensors. The graph knows the names of its locals.

A formula takes a `Node` for each tensor and parameter and returns its outputs by name:

    def layer_norm(x, weight, eps):
        mean = avg(x, "n")
        var = avg((x - mean) * (x - mean), "n")
        return {"y": (x - mean) * rsqrt(var + eps) * weight}

Values have named dimensions. An operation on two of them has the dimensions of both; a reduction takes one away.

Sorting and selection are made of two kinds of nodes: `ranked` is the element of a rank along a dimension, rank 0 being
the largest, and `place` is the place of that element. A rank, like a place, is a number calculated from positions and
extents.
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
    OF_TWO,
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
    paired,
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
"""One dimension, or several that are reduced together: "c" or ("c", "s")."""
Formula = Callable[..., Outputs]


def __getattr__(name: str) -> Callable[..., Node]:
    """Return the function of this module that applies an elementary function, by its name. Raises AttributeError."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return elementary(name)


@cache
def elementary(name: str) -> Callable[..., Node]:
    """Return a Python function that makes the node of an elementary function from a value; a family has a constant, and
    some functions take a second value."""

    def of(value: Operand, other: Operand = 0.0) -> Node:
        if name in OF_TWO and (name != "pow" or isinstance(other, Node)):
            return paired(name, value, other)
        return lifted(value).apply(name, float(other))

    of.__name__ = of.__qualname__ = name
    of.__doc__ = f"Elementwise: `kernelfuzz list functions` says what {name} is."
    return of


def total(value: Operand, dim: Along) -> Node:
    """Return the sum over a dimension, or over several together: one sum of all their terms."""
    return _reduced("sum", dim, lifted(value))


def greatest(value: Operand, dim: Along) -> Node:
    """Return the maximum along a dimension or several."""
    return _reduced("max", dim, lifted(value))


def avg(value: Operand, dim: Along) -> Node:
    """Return the mean along a dimension or several: the sum, divided by the number of terms."""
    return total(value, dim) / extent(dim)


def welford_mean(value: Operand, dim: Along) -> Node:
    """Return the mean along a dimension by Welford's algorithm: updated term by term or joined from parts."""
    return _reduced("welford_mean", dim, lifted(value))


def welford_squares(value: Operand, dim: Along) -> Node:
    """Return the sum of squared deviations from the mean by Welford's algorithm, updated with the running mean."""
    return _reduced("welford_squares", dim, lifted(value))


def online_total(value: Operand, dim: Along) -> Node:
    """Return the sum of e^(value - maximum) along a dimension, updated together with a running maximum: when the
    maximum grows, the sum so far is multiplied by e^(old - new)."""
    return _reduced("online", dim, lifted(value))


def online_dot(share: Node, value: Operand, dim: Along) -> Node:
    """Return the sum of shares e^(score - maximum) times values, updated together with the running maximum of the
    scores: whenever the maximum grows, the sum so far is multiplied by e^(old - new). All sums of one kernel use the
    same factors e^(old - new), so that errors of the factors cancel in a quotient of two sums. The share may be a
    `point`: then e^(score - running maximum) is rounded before it is multiplied, not the share with the final
    maximum."""
    exponential = exponential_of(share)
    shifted = exponential.args[0] if exponential.operation == "exp" else exponential
    if shifted.kind != "subtract":
        raise FormulaError("online_dot: the first argument is no exp(score - maximum), by itself or as a point")
    return _reduced("online_dot", dim, share, lifted(value), shifted.args[0])


def exponential_of(share: Node) -> Node:
    """Return the exponential that a share is made of: the share itself, or the argument of a `point`."""
    return share.args[0] if share.kind == "point" else share


def dot(a: Operand, b: Operand, dim: Along) -> Node:
    """Return the sum of products along a dimension or several."""
    return _reduced("dot", dim, lifted(a), lifted(b))


def extent(dim: Along) -> Node:
    """Return the number of elements along a dimension, or along several together."""
    return Node("extent", label=_together("extent", dim))


def position(dim: str, count: Operand | None = None) -> Node:
    """Return 0, 1, 2, ... along a dimension: `position("j") <= position("i")` is a causal mask. A dimension that no
    tensor has needs a `count`, its extent: a number, or an expression of extents with + - * / and `floor`."""
    return Node("position", dims=frozenset([dim]), label=dim, count=None if count is None else lifted(count))


def where(mask: Operand, value: Operand, other: Operand) -> Node:
    """Return `value` where the mask is set, else `other`. The mask is a condition, made with `<`, `==`, `&`, `~` and so
    on, or a tensor of flags."""
    return chosen(mask, value, other)


def take(table: Node, index: Operand, dim: str, outside: float | None = None) -> Node:
    """Return the elements of the table at the places `index` along a dimension, counted from 0. The index is an integer
    tensor, a number, or calculated from positions and extents, as in `2.0 * position("o") + position("k") - 1.0`. Where
    the index is below 0, above the last place or between two places, the result is `outside`; without `outside` the
    index must be a place."""
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
    """Return, at each place along a dimension, the product of all elements up to that place."""
    return scan(value, 0.0, dim, 1.0)


def prod(value: Operand, dim: str) -> Node:
    """Return the product of all elements along a dimension."""
    return take(cumprod(value, dim), extent(dim) - 1.0, dim, 1.0)


def point(value: Node) -> Node:
    """Return the value as a point: this use of it is rounded to the dtype in the contract's `points`, or not at all."""
    return Node("point", (value,), value.dims)


def _reduced(kind: Kind, dim: Along, *args: Node) -> Node:
    dims, label = frozenset().union(*(each.dims for each in args)), _together(kind, dim)
    if missing := [each for each in label.split() if each not in dims]:
        raise FormulaError(f"{kind} over {missing[0]!r}: the value has only the dimensions {sorted(dims)}")
    return Node(kind, args, dims - {*label.split()}, label)


def _together(kind: Kind, dim: Along) -> str:
    """Return the label of a node over these dimensions. Raises FormulaError if there are none, or one comes twice."""
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
    """The dimensions of each tensor, in the order of the tensor's axes."""
    outputs: Mapping[str, Node]
    locals: Mapping[str, Node] = field(default_factory=dict)
    """Nodes by name: tensors and parameters, then locals of the formula, then outputs."""
    counts: Counts = field(default_factory=dict)
    """The expression of each extent that follows from others."""

    def taking(self, taken: Mapping[Node, Node]) -> Trace:
        """Return the graph with other nodes in place of its own; the graph itself if its outputs stay the same."""
        if all(taken[node] is node for node in self.outputs.values()):
            return self
        called = {name: taken[node] for name, node in self.locals.items()}
        outputs = {name: taken[node] for name, node in self.outputs.items()}
        return Trace(self.dims, self.tensors, outputs, called, self.counts)

    @lazy
    def names(self) -> Mapping[Node, str]:
        """Return the first name of each node, by which contracts and explanations refer to it."""
        found: dict[Node, str] = {}
        for name, node in self.locals.items():
            found.setdefault(node, name)
        return found

    @lazy
    def digest(self) -> str:
        """Return sixteen hexadecimal digits of a hash of the graph: they differ between formulas that calculate
        different values, or the same value in another way."""
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
        """Return the dimensions along which values are combined: by a reduction, by taking elements, or by positions or
        extents. Along any other dimension a slice of the outputs depends only on the same slice of the tensors."""
        found = {dim for node in self.nodes if node.kind in _MEETING for dim in node.over}
        return frozenset(found.union(*map(extents_of, self.counts.values())))

    @lazy
    def orders(self) -> Mapping[str, Sequence[int]]:
        """Return the axes of each tensor, in the order of `dims`."""
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
        """Return the nodes that are arguments of additions. If one is a product, a kernel may add it unrounded."""
        found = (node for node in self.nodes if node.kind in ("add", "subtract", "sum"))
        return frozenset(arg for node in found for arg in node.args)

    @lazy
    def started(self) -> frozenset[Node]:
        """Return the sums that are only added to another value: their accumulators may start with that value."""
        found = (node for node in self.nodes if node.kind in ("sum", "dot") and node not in self.outputs.values())

        def is_start(use: Node, node: Node) -> bool:
            return use.kind in ADDING and use.dims.isdisjoint(node.over)

        return frozenset(node for node in found if all(is_start(use, node) for use in self.uses[node]))

    @lazy
    def chains(self) -> Mapping[Node, Chain]:
        """Return the chains of additions in the formula, each by its last addition."""
        return chains_of(self.nodes, self.uses, self.outputs.values(), self.started)

    @lazy
    def shares(self) -> Shares:
        """Return the shares in the formula, such as the outputs of a softmax, and the means with such weights."""
        return shares_of(self.nodes)

    @lazy
    def joined(self) -> frozenset[Node]:
        """Return the nodes that are summed over one of their dimensions, alone or as a factor, and are also used
        outside that sum. Their errors enter both, see `oracles.formula.affine.errors`. Factors of squares are left out,
        since they matter little there."""
        found = set[Node]()
        for node in self.nodes:
            if node.kind in ("sum", *CONTRACTIONS):
                for arg in node.args[:2]:
                    terms = [arg, *(arg.args if arg.kind == "multiply" and len({*arg.args}) > 1 else ())]
                    found.update(each for each in terms if not each.dims.isdisjoint(node.over) and each.args)
        return frozenset(node for node in found if len({*self.uses[node]}) > 1)

    def named(self, name: str) -> Node:
        """Return the node of the local with this name. Raises FormulaError if there is none."""
        if name in self.locals:
            return self.locals[name]
        raise FormulaError(f"the formula has no local {name!r}; it has {', '.join(self.locals)}")


def trace(formula: Formula, tensors: Mapping[str, Sequence[str]], parameters: Sequence[str] = ()) -> Trace:
    """Return the graph of a formula. `tensors` are the dimensions of each tensor by name. Raises FormulaError if the
    formula returns anything but a mapping of names to nodes, or cannot be run on nodes."""
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
"""The modules whose functions build nodes. The local variables of these functions are not locals of a formula."""


def run(function: Callable[..., Any], given: Mapping[str, Node]) -> tuple[Any, Mapping[str, Node]]:
    """Return the result of a function of nodes, and its local variables that are nodes, by name, then those of
    functions that it calls. A profiling hook collects them: Python has no other way to learn their names."""
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
        else:  # the profiler of cProfile is an object, which can only be enabled again
            before.enable()
    return returned, {**own, **{name: each for name, each in called.items() if name not in own}}


Ties = Literal["either", "first", "last"]
"""Which of several equal elements comes first: either, that at the lowest place, or that at the highest. If the values
are calculated, rounding may make elements equal, and the place of any element that may be as large is right."""
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
    """Return the k largest elements along a dimension in descending order, or the k smallest in ascending order, and
    their places. Both lie along `into`, a dimension that no tensor has. k is a number or an expression of extents."""
    count = Node("within", (lifted(k), extent(dim)))
    return _both(lifted(value), position(into, count), dim, ties, largest)


def sort(value: Operand, dim: str, ties: Ties = "either", *, descending: bool = False) -> tuple[Node, Node]:
    """Return the elements along a dimension in order, and the place of each before sorting."""
    return _both(lifted(value), position(dim), dim, ties, descending)


def argsort(value: Operand, dim: str, ties: Ties = "either", *, descending: bool = False) -> Node:
    """Return the places along a dimension in the order of their elements."""
    return sort(value, dim, ties, descending=descending)[1]


def _both(value: Node, rank: Node, dim: str, ties: Ties, largest: bool) -> tuple[Node, Node]:
    if largest:
        return ranked(value, rank, dim), place(value, rank, dim, ties)
    return -ranked(-value, rank, dim), place(-value, rank, dim, ties)


def ranked(value: Node, rank: Operand, dim: str) -> Node:
    """Return the element of this rank along a dimension; rank 0 is the largest element."""
    return _selected("ranked", value, rank, dim)


def place(value: Node, rank: Operand, dim: str, ties: Ties = "either") -> Node:
    """Return the place, along a dimension, of the element of this rank; rank 0 is the largest element."""
    if ties not in TIES:
        raise FormulaError(f"ties={ties!r}: it is one of {', '.join(map(repr, TIES))}")
    return _selected("place", value, rank, dim, TIES[ties])


def _selected(kind: Literal["ranked", "place"], value: Node, rank: Operand, dim: str, ties: float = 0.0) -> Node:
    at = lifted(rank)
    if dim not in value.dims:
        raise FormulaError(f"{kind} along {dim!r}: the value has only the dimensions {sorted(value.dims)}")
    return Node(kind, (value, at), value.dims - {dim} | at.dims, dim, ties)
