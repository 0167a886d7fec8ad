"""Expansion: other arrangements of a formula with the same exact value. Products of sums are multiplied out, `(x - m) *
r` into `x * r - m * r`. Or then another common factor is taken out of the terms, `(1 - t) * a + t * b` for `a + t * (b
- a)`. Or a step between two values is made from the other end, `b - (b - a) * (1 - t)`, as torch.lerp does for t of 1/2
and more; t may be 1 - s for a share s. If t is a constant, a kernel may round it before it subtracts it from one, and 1
- t is then far off. Each arrangement rounds other terms, so that errors differ where terms cancel.

Kernels may also calculate some functions from others, as the tables of Vulkan and WGSL say: then their errors are
inherited from those. `Contract.inherited` names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import permutations
from typing import Literal

from oracles.formula.chains import ADDING
from oracles.formula.contract import COLLECTED, EXPANDED, INHERITED, LERP, STEPS
from oracles.formula.node import Kind, Node, chosen, of_two, ordered
from oracles.formula.trace import Trace

_MULTIPLYING: Sequence[Kind] = "multiply", "divide"
_COUNTED: Sequence[Kind] = "constant", "extent", "position"
_MOST = 16
"""The most terms into which one value is multiplied out: a product of sums has a term for each combination of their
terms. The number was chosen, not measured."""
ONE = 2.0**-50
"""The distance from one that the sum of two constant shares may have, since each share was rounded to float64."""


@dataclass(frozen=True, eq=False)
class _Term:
    """A term of a sum: `node`, which is subtracted if `less`, and otherwise added."""

    less: bool
    node: Node

    @property
    def factors(self) -> Sequence[Node]:
        """The factors of the term."""
        found, waiting = list[Node](), [self.node]
        while waiting:
            node = waiting.pop()
            if node.kind == "multiply":
                waiting += reversed(node.args)
            else:
                found.append(node)
        return found

    def without(self, factor: Node) -> _Term:
        """Return the term without one of its factors."""
        others = [*self.factors]
        others.remove(factor)
        return _Term(self.less, reduce(Node.__mul__, others) if others else Node("constant", value=1.0))


def arranged(graph: Trace, way: str) -> Trace:
    """Return the graph of one arrangement that a contract allows, see `expanded` and `inherited`."""
    if way.startswith(INHERITED):
        return inherited(graph, way.removeprefix(INHERITED).split())
    return expanded(graph, way)


def expanded(graph: Trace, way: str = EXPANDED) -> Trace:
    """Return the graph of one arrangement, `way`: `EXPANDED` multiplies out products and quotients of sums, `COLLECTED`
    then takes out a factor that several terms have, `STEPS` and `LERP` only make steps from another end. The graph
    itself is returned if the arrangement changes nothing. Raises ValueError for an unknown way."""
    if way not in (EXPANDED, *COLLECTED, *STEPS, *LERP):
        raise ValueError(f"{way!r} is no way to multiply out")
    terms = dict[Node, Sequence[_Term]]()
    taken = dict[Node, Node]()
    for node in ordered([*graph.outputs.values(), *graph.locals.values()]):
        found, is_new = _terms(node, terms, taken)
        terms[node] = found
        if way in (*STEPS, *LERP):
            step = None if any(taken[arg] is not arg for arg in node.args) else _stepped(node, found, way)
            taken[node] = node.made_of(taken) if step is None else step
            continue
        if way in COLLECTED and len(found) > 1:
            found = _collected(found, COLLECTED.index(way))
            is_new |= found is not terms[node]
        taken[node] = _total(found) if is_new else node.made_of(taken)
    return graph.taking(taken)


def arrangements(graph: Trace) -> Sequence[Literal[False, True, "lerp"]]:
    """Return the values of `Contract.expanded` that differ for this formula; nothing if no arrangement changes it."""

    def is_other(*ways: str) -> bool:
        return any(expanded(graph, way) is not graph for way in ways)

    if not is_other(EXPANDED, *COLLECTED, *STEPS):
        return ()
    return (False, True, "lerp") if is_other(*LERP) and not is_other(*STEPS) else (False, True)


def _terms(
    node: Node, terms: Mapping[Node, Sequence[_Term]], taken: Mapping[Node, Node]
) -> tuple[Sequence[_Term], bool]:
    """Return signed terms that add up to a value, and whether the formula itself adds other terms."""
    alone = [_Term(False, node.made_of(taken))]
    if node.kind not in (*ADDING, *_MULTIPLYING, "negate") or _is_counted(node):
        return alone, False
    first, *others = (terms[arg] for arg in node.args)
    is_new = any(taken[arg] is not arg and len(terms[arg]) > 1 for arg in node.args)
    if node.kind == "negate":
        found = [_Term(not term.less, term.node) for term in first]
    elif node.kind in ADDING:
        found = [*first, *(_Term(term.less ^ (node.kind == "subtract"), term.node) for term in others[0])]
    else:
        second = [_Term(False, taken[node.args[1]])] if node.kind == "divide" else others[0]
        found = [_Term(a.less ^ b.less, _product(node, a.node, b.node)) for a in first for b in second]
        is_new |= len(found) > 1
    return (found, is_new) if len(found) <= _MOST else (alone, False)


def _is_counted(node: Node) -> bool:
    """Whether a value depends on no tensor and no parameter: only on constants, extents and positions."""
    return all(each.kind in _COUNTED for each in ordered([node]) if not each.args)


def _product(node: Node, a: Node, b: Node) -> Node:
    """Return a * b or a / b, whichever operation the node is."""
    if node.args == (a, b):
        return node
    if node.kind == "multiply":
        for one, other in ((a, b), (b, a)):
            if one.kind == "constant" and one.value == 1.0 and not one.low:
                return other
    return of_two(node.kind, a, b)


def _collected(terms: Sequence[_Term], which: int) -> Sequence[_Term]:
    """Return the terms with the first common factor (`which` 0) or the last one (1) taken out. Terms without a common
    factor may still be shares, see `_shares`."""
    shared = [factor for term in terms for factor in dict.fromkeys(term.factors) if factor.kind != "constant"]
    common = [factor for factor in dict.fromkeys(shared) if shared.count(factor) > 1]
    if not common:
        return _shares(terms)
    factor = common[-which]
    inside = [term for term in terms if factor in term.factors]
    [first, *_] = inside
    rest = _summed([term.without(factor) for term in inside])
    whole = _Term(False, _total(rest) * factor)
    return [whole if term is first else term for term in terms if term is first or term not in inside]


def _shares(terms: Sequence[_Term]) -> Sequence[_Term]:
    """Return two terms with constant shares that add up to one, 0.9 m + 0.1 g, as a step from the larger share to the
    other, m + 0.1 (g - m); other terms unchanged. `_numbered` steps from the other end, with the error of 1 - 0.1."""
    shares = _shares_of(terms)
    if shares is None:
        return terms
    whole, numbers = shares
    which = 0 if numbers[0].value >= numbers[1].value else 1
    start, end = (terms[at].without(numbers[at]).node for at in (which, 1 - which))
    return [_Term(False, whole * start), _Term(False, numbers[1 - which] * (end - start))]


def _stepped(node: Node, terms: Sequence[_Term], way: str) -> Node | None:
    """Return a sum of two values, whose shares add up to one, as a step that starts from the other value; None for
    other sums. The share of the step is 1 - s, as a kernel rounds it, or 1 - (1 - s) in place of s."""
    if node.kind not in ADDING:
        return None
    which = (STEPS if way in STEPS else LERP).index(way)
    between = (_numbered(terms, which) if way in LERP else None) or _shared(terms, which)
    if between is None:
        return None
    start, end, rest, whole = between
    return (start if whole.value == 1.0 and not whole.low else whole * start) - (start - end) * rest


_Between = tuple[Node, Node, Node, Node]
"""A step between two values: the value where it starts, the other value, the share of the other value as a kernel
calculates it, and the sum of both shares. For constant shares that sum is one except for their rounding."""


def _numbered(terms: Sequence[_Term], which: int) -> _Between | None:
    """Return the step between two terms with constant shares: 0.9 m + 0.1 g is a step from m to g by 1 - 0.9 (`which`
    0), or from g to m by 1 - 0.1 (1). For other terms return None."""
    shares = _shares_of(terms)
    if shares is None:
        return None
    whole, numbers = shares
    start, end = (terms[at].without(numbers[at]).node for at in (which, 1 - which))
    return start, end, whole - numbers[which], whole


def _shared(terms: Sequence[_Term], which: int) -> _Between | None:
    """Return the step in a - s a + s b: 1 - s from b to a (`which` 0), 1 - (1 - s) from a to b (1); else None."""
    if len(terms) != 3:
        return None
    for start, less, more in permutations(terms):
        if start.less or more.less or not less.less:
            continue
        for share in dict.fromkeys(more.factors):
            others = less.without(share).factors if share in less.factors else ()
            if share.kind != "constant" and Counter(others) == Counter(start.factors):
                rest = 1.0 - share
                a, b = start.node, more.without(share).node
                one = Node("constant", value=1.0)
                return (b, a, rest, one) if which == 0 else (a, b, 1.0 - rest, one)
    return None


def _shares_of(terms: Sequence[_Term]) -> tuple[Node, Sequence[Node]] | None:
    """Return the sum of two terms' constant factors if it is 1, and both factors; None for other terms."""
    numbers = [[each for each in term.factors if each.kind == "constant"] for term in terms]
    if len(terms) != 2 or any(term.less for term in terms) or [len(some) for some in numbers] != [1, 1]:
        return None
    [whole, *more] = _summed([_Term(False, number) for [number] in numbers])
    if more or abs(whole.node.value - 1.0) > ONE:
        return None
    return whole.node, [number for [number] in numbers]


def _summed(terms: Sequence[_Term]) -> Sequence[_Term]:
    """Return the terms with all constants added up; unchanged if the exact sum does not fit into two float64."""
    numbers = [term for term in terms if term.node.kind == "constant"]
    if len(numbers) < 2:
        return terms
    exact = sum((Fraction(term.node.value) + Fraction(term.node.low)) * (-1 if term.less else 1) for term in numbers)
    value = float(exact)
    low = float(exact - Fraction(value))
    if Fraction(value) + Fraction(low) != exact:
        return terms
    number = _Term(False, Node("constant", value=value, low=low))
    return [number, *(term for term in terms if term not in numbers)]


def _total(terms: Sequence[_Term]) -> Node:
    first, *others = terms
    total = -first.node if first.less else first.node
    for term in others:
        total = total - term.node if term.less else total + term.node
    return total


def _asin(x: Node) -> Node:
    return (x / _root(x)).apply("atan")


def _acos(x: Node) -> Node:
    """Return the arctangent of y / x with y = sqrt(1 - x^2), turned by a half if x is not positive, as that of two
    arguments is. A quarter turn is 2 atan(1), which has no rounding of its own."""
    quarter = 2.0 * Node("constant", value=1.0).apply("atan")
    return chosen(x > 0.0, (_root(x) / x).apply("atan"), quarter - (x / _root(x)).apply("atan"))


def _root(x: Node) -> Node:
    return (1.0 - x * x).apply("sqrt")


def _pow(node: Node) -> Node:
    exponent = node.args[1] if node.kind == "pair" else Node("constant", value=node.value, low=node.low)
    return (exponent * node.args[0].apply("log2")).apply("exp2")


EXPRESSIONS: Mapping[str, Callable[[Node], Node]] = {
    "acos": _acos,
    "acosh": lambda x: (x + (x * x - 1.0).apply("sqrt")).apply("log"),
    "asin": _asin,
    "asinh": lambda x: (x + (x * x + 1.0).apply("sqrt")).apply("log"),
    "atanh": lambda x: ((1.0 + x) / (1.0 - x)).apply("log") * 0.5,
    "cosh": lambda x: (x.apply("exp") + (-x).apply("exp")) * 0.5,
    "sinh": lambda x: (x.apply("exp") - (-x).apply("exp")) * 0.5,
    "sqrt": lambda x: 1.0 / x.apply("rsqrt"),
    "tan": lambda x: x.apply("sin") / x.apply("cos"),
    "tanh": lambda x: x.apply("sinh") / x.apply("cosh"),
}
"""The expression by which each function may be replaced, beside `pow` with its constant."""


def inherited(graph: Trace, names: Collection[str]) -> Trace:
    """Return the graph with the expression in place of each function in `names`, also inside of other expressions; the
    graph itself if it has no such function."""
    taken = dict[Node, Node]()
    for node in ordered([*graph.outputs.values(), *graph.locals.values()]):
        taken[node] = expression(node.made_of(taken), names)
    return graph.taking(taken)


def expression(node: Node, names: Collection[str]) -> Node:
    """Return the expression in place of a node, if it is one of the functions in `names`; else the node."""
    if node.kind not in ("function", "pair") or node.label not in names:
        return node
    found = _pow(node) if node.label == "pow" else EXPRESSIONS[node.label](*node.args)
    made = {each: each for each in ordered(node.args)}
    for each in ordered([found]):
        if each not in made:
            made[each] = expression(each.made_of(made), names)
    return made[found]


def parts(names: Collection[str]) -> Iterator[Node]:
    """Yield the nodes of the expressions of the functions in `names`."""
    for name in names:
        yield from ordered([expression(Node("tensor", label="x").apply(name, 2.5 if name == "pow" else 0.0), names)])
