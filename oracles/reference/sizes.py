"""The dimensions of a reference: those of its tensors, and those that it makes, whose extents follow from others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from oracles.formula.made import completed, value_of
from oracles.formula.node import Node
from oracles.reference.dims import ONE, Axis, Dim, Pair
from oracles.reference.lines import number, of_dims, template

_SIGNS = {"add": "a + b", "subtract": "a - b", "multiply": "a * b", "divide": "a / b"}


@dataclass
class Sizes:
    """All dimensions so far. Two whose extents are the same whatever others are count as one."""

    given: Mapping[str, Dim]
    made: dict[str, tuple[Dim, Node]] = field(default_factory=dict)
    """What the reference makes, and how many places it has."""

    def __iter__(self) -> Iterator[Dim]:
        yield from self.given.values()
        yield from (dim for dim, _ in self.made.values())

    def pair(self, count: Node) -> Pair:
        """Return a count in both calls."""
        first, second, _ = self._thrice(count)
        return first, second

    def axis(self, count: Node, hint: str) -> Axis:
        """Return the axis of so many elements: of the dimension that has always as many, or of a new one."""
        thrice = self._thrice(count)
        if thrice == (1, 1, 1):
            return ()
        free = [dim for dim in self if dim.sizes == thrice[:2] and dim.sizes[0] != dim.sizes[1]]
        known = (dim for dim in free if self._thrice(of(dim)) == thrice)
        return (next(known, None) or self.new(count, hint),)

    def new(self, count: Node, hint: str) -> Dim:
        """Return a dimension of its own."""
        taken, name, at = {dim.name for dim in self}, hint, 1
        while name in taken:
            at += 1
            name = f"{hint}{at}"
        dim = Dim(name, self.pair(count))
        self.made[name] = dim, count
        return dim

    def place(self, dim: Dim) -> ast.expr:
        """Return what counts along a dimension."""
        if dim.name not in self.made:
            return template("f.position(dim)", {"dim": of_dims([dim])})
        count = self.expression(self.made[dim.name][1])
        return template("f.position(dim, count)", {"dim": of_dims([dim]), "count": count})

    def expression(self, count: Node) -> ast.expr:
        """Return a count as a formula has it."""
        if count.kind == "constant":
            return number(count.value)
        if count.kind == "extent":
            known = {dim.name: dim for dim in self}
            return template("f.extent(dim)", {"dim": of_dims([known[name] for name in count.over])})
        args = dict(zip("ab", map(self.expression, count.args), strict=False))
        return template(_SIGNS.get(count.kind, "f.floor(a)"), args)

    def _thrice(self, count: Node) -> tuple[int, int, int]:
        """A count in both calls, and with other extents of what is not fixed."""
        free = [dim for dim in self.given.values() if dim.sizes[0] != dim.sizes[1]]
        others = {dim.name: dim.sizes[0] for dim in self.given.values()}
        others |= {dim.name: 5040 * (at + 2) for at, dim in enumerate(free)}
        calls = [{dim.name: dim.sizes[which] for dim in self.given.values()} for which in (0, 1)]
        counts = {name: made for name, (_, made) in self.made.items()}
        first, second, third = (int(value_of(count, completed(counts, each, least=0))) for each in (*calls, others))
        return first, second, third


def of(*dims: Dim) -> Node:
    """Return the extent of dimensions together."""
    return Node("extent", label=" ".join(dim.name for dim in dims)) if dims else Node("constant", value=1.0)


def floored(count: Node, by: float) -> Node:
    """Return how often a number goes into a count."""
    return count if by == 1 else Node("function", (count / by,), label="floor")


def plus(count: Node, more: float) -> Node:
    """Return a count with so many more, or fewer."""
    if count.kind == "constant":
        return Node("constant", value=count.value + more)
    return count if not more else count + more if more > 0 else count - -more


def is_one(pair: Pair) -> bool:
    """Whether an extent is 1."""
    return pair == ONE
