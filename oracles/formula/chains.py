"""Chains: terms that a formula adds one by one, `a + b - c + d`, so that a kernel may add any two of them first.

A chain ends at an addition and goes back through the additions that make its operands. It stops at one whose result is
also used elsewhere, if another term is made from that: a kernel for `h + f(h)` had h before. If a term would come in
with both signs, as in `(a + b) - a`, the order is the algorithm, and there is no chain: a compensated sum keeps just
what an order rounds off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from oracles.formula.node import Node

ADDING = "add", "subtract"
_OFTEN = 8
"""A term that is added more often than this is written as a product."""


@dataclass(frozen=True, eq=False)
class Addend:
    """A term that one addition of a chain adds from outside of it."""

    taker: Node
    place: int
    sign: float
    """The factor of the term in the sum."""

    @property
    def node(self) -> Node:
        """The term itself."""
        return self.taker.args[self.place]


@dataclass(frozen=True, eq=False)
class Chain:
    """The terms of a sum."""

    terms: Sequence[Addend]
    inner: frozenset[Node]
    """The additions, and changes of sign, before the last addition."""


def chains_of(
    nodes: Sequence[Node], uses: Mapping[Node, Sequence[Node]], outputs: Collection[Node], sums: Collection[Node]
) -> Mapping[Node, Chain]:
    """Return the chains of a formula by their last additions: those of three terms or more (2 a counts as two), and
    those of two terms that are sums themselves."""
    of, found, within = _Nodes(nodes, uses, frozenset(outputs)), dict[Node, Chain](), set[Node]()
    for node in reversed(nodes):
        if node.kind not in ADDING or node in within or of.meets_its_opposite(node):
            continue
        chain = of.chain(node)
        of_terms = [term.node for term in chain.terms if not _is_nothing(term.node)]
        if (len(of_terms) > 1 and sum(map(copies, of_terms)) > 2) or {*of_terms} <= {*sums}:
            found[node] = chain
            within.update(filter(of.is_alone, chain.inner))
    return found


def copies(node: Node) -> int:
    """Return how often a term may be added that is a whole number times another one."""
    if node.kind != "multiply":
        return 1
    found = (abs(arg.value) if arg.kind == "constant" else float(copies(arg)) for arg in node.args)
    return next((int(value) for value in found if value.is_integer() and 1 < value <= _OFTEN), 1)


def _is_nothing(node: Node) -> bool:
    return node.kind == "constant" and not node.value and not node.low


class _Nodes:
    """What chains need to know of a formula's nodes. Sets of nodes are the bits of an int."""

    def __init__(self, nodes: Sequence[Node], uses: Mapping[Node, Sequence[Node]], outputs: frozenset[Node]) -> None:
        self._uses, self._outputs = uses, outputs
        self._bits = {node: 1 << at for at, node in enumerate(nodes)}
        self._made_of: dict[Node, int] = {}
        self._signs: dict[Node, tuple[int, int]] = {}
        """The terms that are added to make each node, and those that are subtracted."""
        for node in nodes:
            own = self._bits[node]
            for arg in node.args:
                own |= self._made_of[arg]
            self._made_of[node] = own
            self._signs[node] = self._signs_of(node)

    def _signs_of(self, node: Node) -> tuple[int, int]:
        if node.kind == "negate":
            plus, minus = self._signs[node.args[0]]
            return minus, plus
        if node.kind not in ADDING:
            return self._bits[node], 0
        (plus, minus), other = (self._signs[arg] for arg in node.args)
        more, less = other if node.kind == "add" else other[::-1]
        return plus | more, minus | less

    def meets_its_opposite(self, node: Node) -> bool:
        """Whether it is a sum of something and its opposite."""
        plus, minus = self._signs[node]
        return bool(plus & minus)

    def is_alone(self, node: Node) -> bool:
        """Whether it is used once."""
        return len(self._uses[node]) == 1 and node not in self._outputs

    def chain(self, last: Node) -> Chain:
        """Return the chain that ends at an addition."""
        closed = set[Node]()
        while True:
            chain = self._chain(last, closed)
            made_of = 0
            for term in chain.terms:
                made_of |= self._made_of[term.node]
            needed = {node for node in chain.inner if made_of & self._bits[node]}
            if not needed:
                return chain
            closed |= needed

    def _chain(self, last: Node, closed: Collection[Node]) -> Chain:
        terms, inner, waiting = list[Addend](), set[Node](), [(last, 1.0)]
        while waiting:
            node, sign = waiting.pop()
            for place, arg in enumerate(node.args):
                own, through = -sign if place and node.kind == "subtract" else sign, [arg]
                while through[-1].kind == "negate":
                    through.append(through[-1].args[0])
                is_open = (each not in closed and each not in inner and self._is_open(each, last) for each in through)
                if through[-1].kind in ADDING and all(is_open):
                    inner.update(through)
                    waiting.append((through[-1], own if len(through) % 2 else -own))
                else:
                    terms.append(Addend(node, place, own))
        return Chain(terms, frozenset(inner))

    def _is_open(self, node: Node, last: Node) -> bool:
        """Return whether a kernel may merge this sum into a larger one. If it is used elsewhere too, it must have the
        dimensions of the larger sum: a smaller one would be calculated once."""
        return self.is_alone(node) or node.dims == last.dims
