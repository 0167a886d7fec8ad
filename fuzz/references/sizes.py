"""The dimensions of a reference: those of its tensors, and those that it creates, whose extents follow from others."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

from fuzz.references.dims import Axis, Dim, Pair
from fuzz.references.lines import number, template
from oracles.formula.made import completed, plus, value_of
from oracles.formula.node import Node

MOST_PARTS = 16
"""The most parts into which a dimension is cut."""
_SIGNS = {"add": "a + b", "subtract": "a - b", "multiply": "a * b", "divide": "a / b"}


@dataclass
class Sizes:
    """All dimensions so far. Two dimensions whose extents are always equal count as one."""

    given: Mapping[str, Dim]
    """The dimensions of tensors whose extents follow from no others."""
    made: dict[str, tuple[Dim, Node]] = field(default_factory=dict)
    """The dimensions whose extents follow from others, with their expressions."""

    unheld: Collection[str] = ()
    """The dimensions in `made` that no tensor has, so that a formula states their extents."""

    def __iter__(self) -> Iterator[Dim]:
        yield from self.given.values()
        yield from (dim for dim, _ in self.made.values())

    def pair(self, count: Node) -> Pair:
        """Return the values of a count in both calls."""
        first, second, _ = self._thrice(count)
        return first, second

    def plainer(self, count: Node, other: Node) -> Node:
        """Return `count` if it always equals `other`, else `other`."""
        return count if self._thrice(count) == self._thrice(other) else other

    def axis(self, count: Node, hint: str) -> Axis:
        """Return an axis with this extent: the known dimension that always has it, or a new one."""
        thrice = self._thrice(count)
        if thrice == (1, 1, 1):
            return ()
        free = [dim for dim in self if dim.sizes == thrice[:2] and dim.sizes[0] != dim.sizes[1]]
        known = (dim for dim in free if self._thrice(of(dim)) == thrice)
        return (next(known, None) or self.new(count, hint),)

    def count(self, pair: Pair) -> Node | None:
        """Return the likeliest expression with these values in both calls; None if there is none."""
        if pair[0] == pair[1]:
            return Node("constant", value=float(pair[0]))
        given = [*self.given.values()]
        for dims in (given, [dim for dim in self if dim not in given]):
            for count in _counts(dims):
                if self.pair(count) == pair:
                    return count
        return None

    def new(self, count: Node, hint: str) -> Dim:
        """Return a new dimension with this extent."""
        taken, name, at = {dim.name for dim in self}, hint, 1
        while name in taken:
            at += 1
            name = f"{hint}{at}"
        dim = Dim(name, self.pair(count))
        self.made[name] = dim, count
        return dim

    def place(self, dim: Dim) -> ast.expr:
        """Return the expression of the places along a dimension."""
        if dim.name not in self.made:
            return template("f.position(dim)", dim=dim)
        count = self.expression(self.made[dim.name][1])
        return template("f.position(dim, count)", dim=dim, count=count)

    def expression(self, count: Node) -> ast.expr:
        """Return the expression of a count in a formula."""
        if count.kind == "constant":
            return number(count.value)
        if count.kind == "extent" and count.label in self.unheld:
            return self.expression(self.made[count.label][1])
        if count.kind == "extent":
            known = {dim.name: dim for dim in self}
            return template("f.extent(dim)", dim=[known[name] for name in count.over])
        args = dict(zip("ab", map(self.expression, count.args), strict=False))
        return template(_SIGNS.get(count.kind, "f.floor(a)"), **args)

    def _thrice(self, count: Node) -> tuple[int, int, int]:
        """Return the values of a count in both calls, and for other extents of all free dimensions."""
        free = [dim for dim in self.given.values() if dim.sizes[0] != dim.sizes[1]]
        others = {dim.name: dim.sizes[0] for dim in self.given.values()}
        ranked = sorted(free, key=lambda dim: dim.sizes)  # a longer dimension stays longer, so that its parts fit
        others |= {dim.name: 5040 * (dim.sizes[0] + at) for at, dim in enumerate(ranked, 1)}
        calls = [{dim.name: dim.sizes[which] for dim in self.given.values()} for which in (0, 1)]
        counts = {name: made for name, (_, made) in self.made.items()}
        first, second, third = (int(value_of(count, completed(counts, each, least=0))) for each in (*calls, others))
        return first, second, third


def _counts(dims: Sequence[Dim]) -> Iterator[Node]:
    """Yield counts that extents may follow, the likeliest first."""
    parts = range(2, MOST_PARTS + 1)
    yield from map(of, dims)
    yield from (of(dim) / float(by) for dim in dims for by in parts if all(size % by == 0 for size in dim.sizes))
    yield from (of(dim) * float(by) for dim in dims for by in parts)
    yield from (plus(of(dim), more) for dim in dims for more in (-1.0, 1.0))
    yield from (floored(plus(of(dim), more), float(by)) for dim in dims for by in parts for more in (0.0, by - 1.0))
    yield from (plus(of(dim), more) for dim in dims for by in parts for more in (-float(by), float(by)))
    yield from (of(one) + of(other) for one, other in combinations(dims, 2))
    yield from (of(one) - of(other) for one, other in permutations(dims, 2))
    yield from (of(one, other) for one, other in combinations(dims, 2))


def of(*dims: Dim) -> Node:
    """Return the count that is the product of the extents of dimensions."""
    return Node("extent", label=" ".join(dim.name for dim in dims)) if dims else Node("constant", value=1.0)


def added(count: Node, more: Node) -> Node:
    """Return the sum of two counts, written as a difference if the second is 0 minus a count."""
    if more.kind == "constant":
        return plus(count, more.value)
    return count - more.args[1] if is_less(more) else count + more


def negated(count: Node) -> Node:
    """Return 0 minus a count."""
    if count.kind == "constant":
        return Node("constant", value=0.0 - count.value)
    return count.args[1] if is_less(count) else Node("constant", value=0.0) - count


def is_less(count: Node) -> bool:
    """Whether a count is written as 0 minus another count."""
    return count.kind == "subtract" and count.args[0].kind == "constant" and not count.args[0].value


def floored(count: Node, by: float) -> Node:
    """Return floor(count / by)."""
    return count if by == 1 else Node("function", (count / by,), label="floor")
