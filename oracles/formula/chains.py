"""Chains: terms that a formula adds one by one, `a + b - c + d`, so that a kernel may add any two of them first.

A chain ends at an addition and goes back through the additions that make its operands. It stops at an addition whose
result is also used elsewhere, if another term of the chain is made from that result: a kernel for `h + f(h)` calculates
h first. If a term would enter a chain with both signs, as in `(a + b) - a`, there is no chain: in a compensated sum the
order of the additions is the algorithm, since the sum keeps what one order rounds off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from oracles.formula.node import Node

ADDING = "add", "subtract"
_OFTEN = 8
"""The largest whole factor of a term, as in 2 a, that counts as repeated addition of the term."""


@dataclass(frozen=True, eq=False)
class Addend:
    """A term of a chain: an argument of one of the chain's additions that is no such addition itself."""

    taker: Node
    place: int
    sign: float
    """1 if the chain adds the term, -1 if it subtracts it."""

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
    """Return the chains of a formula, each by its last addition. A chain has three terms or more (2 a counts as two),
    or all its terms are reductions among `sums`. `uses` are the nodes that use each node."""
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
    """Return how many additions may make a term: k for `k * a` with a whole k from 2 to `_OFTEN`, otherwise 1."""
    if node.kind != "multiply":
        return 1
    found = (abs(arg.value) if arg.kind == "constant" else float(copies(arg)) for arg in node.args)
    return next((int(value) for value in found if value.is_integer() and 1 < value <= _OFTEN), 1)


def _is_nothing(node: Node) -> bool:
    return node.kind == "constant" and not node.value and not node.low


class _Nodes:
    """The nodes of a formula, with what each node is made of. Sets of nodes are stored as the bits of an int."""

    def __init__(self, nodes: Sequence[Node], uses: Mapping[Node, Sequence[Node]], outputs: frozenset[Node]) -> None:
        self._uses, self._outputs = uses, outputs
        self._bits = {node: 1 << at for at, node in enumerate(nodes)}
        self._made_of: dict[Node, int] = {}
        self._signs: dict[Node, tuple[int, int]] = {}
        """For each node, the set of the terms that are added to make it, and the set of those that are subtracted."""
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
        """Whether some term is both added and subtracted to make a node."""
        plus, minus = self._signs[node]
        return bool(plus & minus)

    def is_alone(self, node: Node) -> bool:
        """Whether a node is used once, and is no output."""
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
        """Whether a kernel may merge the sum `node` into the larger sum `last`. If `node` is used elsewhere too, it
        must have the dimensions of the larger sum: a kernel would calculate a smaller array once and keep it."""
        return self.is_alone(node) or node.dims == last.dims
