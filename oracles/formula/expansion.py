"""Expansion: other arrangements of a formula with the same exact value. Products of sums are multiplied out, `x * r - m
* r` for `(x - m) * r`; or another factor is taken out of the terms, `(1 - t) * a + t * b` for `a + t * (b - a)`; or a
step between two values is made from the other end, `b - (b - a) * (1 - t)`, as torch.lerp does from 1/2 on, where t may
be 1 - s for a share s. If t is a number, rounding it before it is subtracted from one is an arrangement of its own: 1 -
t may be far off. Other terms are rounded: where they cancel, one arrangement errs by more than another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import permutations
from typing import Literal

from oracles.formula.chains import ADDING
from oracles.formula.contract import COLLECTED, EXPANDED, LERP, STEPS
from oracles.formula.node import Kind, Node, of_two, ordered
from oracles.formula.trace import Trace

_MULTIPLYING: Sequence[Kind] = "multiply", "divide"
_COUNTED: Sequence[Kind] = "constant", "extent", "position"
_MOST = 16
"""The most terms that one value is multiplied out into: a product of several sums has a term for each combination.
Chosen, not measured."""
_ONE = 2.0**-50
"""How far the sum of two shares may be from one: each is rounded to float64."""


@dataclass(frozen=True, eq=False)
class _Term:
    """A term that is added to a sum, or subtracted."""

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
        """Return the product of its other factors."""
        others = [*self.factors]
        others.remove(factor)
        return _Term(self.less, reduce(Node.__mul__, others) if others else Node("constant", value=1.0))


def expanded(graph: Trace, way: str = EXPANDED) -> Trace:
    """Return the graph with products and quotients of sums multiplied out; or then with a factor that several terms
    have taken out of them; or with steps between two values from the other end and nothing else. The graph itself is
    returned if there is nothing to do."""
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
    if all(taken[node] is node for node in graph.outputs.values()):
        return graph
    called = {name: taken[node] for name, node in graph.locals.items()}
    outputs = {name: taken[node] for name, node in graph.outputs.items()}
    return Trace(graph.dims, graph.tensors, outputs, called, graph.counts)


def arrangements(graph: Trace) -> Sequence[Literal[False, True, "lerp"]]:
    """Return what a contract may say of a formula that has something to do by one of the ways."""

    def is_other(*ways: str) -> bool:
        return any(expanded(graph, way) is not graph for way in ways)

    if not is_other(EXPANDED, *COLLECTED, *STEPS):
        return ()
    return (False, True, "lerp") if is_other(*LERP) and not is_other(*STEPS) else (False, True)


def _terms(
    node: Node, terms: Mapping[Node, Sequence[_Term]], taken: Mapping[Node, Node]
) -> tuple[Sequence[_Term], bool]:
    """Return the terms of a value, and whether they differ from those that the formula adds."""
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
    """Whether a value is known before any tensor is."""
    return all(each.kind in _COUNTED for each in ordered([node]) if not each.args)


def _product(node: Node, a: Node, b: Node) -> Node:
    """Return the product, or the quotient, of two terms, as the node is one."""
    if node.args == (a, b):
        return node
    if node.kind == "multiply":
        for one, other in ((a, b), (b, a)):
            if one.kind == "constant" and one.value == 1.0 and not one.low:
                return other
    return of_two(node.kind, a, b)


def _collected(terms: Sequence[_Term], which: int) -> Sequence[_Term]:
    """Return the terms with the first, or the last, common factor taken out; unchanged if they have none in common."""
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
    """Return two parts that add up to one, 0.9 m + 0.1 g, as a step from the larger one to the other, m + 0.1 (g - m);
    other terms unchanged. A step from the other end errs by as much as rounding 1 - 0.1 does, see `_numbered`."""
    shares = _shares_of(terms)
    if shares is None:
        return terms
    whole, numbers = shares
    which = 0 if numbers[0].value >= numbers[1].value else 1
    start, end = (terms[at].without(numbers[at]).node for at in (which, 1 - which))
    return [_Term(False, whole * start), _Term(False, numbers[1 - which] * (end - start))]


def _stepped(node: Node, terms: Sequence[_Term], way: str) -> Node | None:
    """Return a sum of two values with shares that add up to one, as a step to it from the other end; None for other
    sums. The other share is 1 - s, as a kernel rounds it, or s is 1 - (1 - s)."""
    if node.kind not in ADDING:
        return None
    which = (STEPS if way in STEPS else LERP).index(way)
    between = (_numbered(terms, which) if way in LERP else None) or _shared(terms, which)
    if between is None:
        return None
    start, end, rest, whole = between
    return (start if whole.value == 1.0 and not whole.low else whole * start) - (start - end) * rest


_Between = tuple[Node, Node, Node, Node]
"""The end where a step starts, the other end, and the other end's share as a kernel calculates it; and the sum of both
shares, which for two numbers is one except for their rounding."""


def _numbered(terms: Sequence[_Term], which: int) -> _Between | None:
    """Return the step between two parts with constant shares: 0.9 m + 0.1 g goes from m to g by 1 - 0.9, or back by 1 -
    0.1."""
    shares = _shares_of(terms)
    if shares is None:
        return None
    whole, numbers = shares
    start, end = (terms[at].without(numbers[at]).node for at in (which, 1 - which))
    return start, end, whole - numbers[which], whole


def _shared(terms: Sequence[_Term], which: int) -> _Between | None:
    """Return the step in a - s a + s b: from b to a by 1 - s, or from a to b by 1 - (1 - s)."""
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
    """Return the sum of the constant factors of two terms, if that is one, and these factors; None for other terms."""
    numbers = [[each for each in term.factors if each.kind == "constant"] for term in terms]
    if len(terms) != 2 or any(term.less for term in terms) or [len(some) for some in numbers] != [1, 1]:
        return None
    [whole, *more] = _summed([_Term(False, number) for [number] in numbers])
    if more or abs(whole.node.value - 1.0) > _ONE:
        return None
    return whole.node, [number for [number] in numbers]


def _summed(terms: Sequence[_Term]) -> Sequence[_Term]:
    """Return the terms with all numbers joined into one, if float64 can hold it in two parts."""
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
