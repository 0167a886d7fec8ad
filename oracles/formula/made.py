"""Dimensions whose extents follow from the extents of other dimensions.

A formula declares one by a position with a count. The count is a number or an expression of extents, as in
`position("o", floor((extent("n") - 3.0) / 2.0) + 1.0)`. All inputs except the first may have such a dimension: with
`position("half", extent("n") / 2.0)` n is even, and a tensor with the dimension "half" is half as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from oracles.elementary import FormulaError
from oracles.formula.node import Kind, Node, ordered

Counts = Mapping[str, Node]
"""For each dimension whose extent follows from others, the expression of that extent."""

_OPERATIONS: Mapping[Kind, Callable[[Fraction, Fraction], Fraction]] = {
    "add": Fraction.__add__, "subtract": Fraction.__sub__, "multiply": Fraction.__mul__,
}  # fmt: skip


def counts_of(nodes: Iterable[Node]) -> Counts:
    """Return the counts that positions among these nodes declare. Raises FormulaError if a dimension has two counts."""
    found = dict[str, Node]()
    for node in nodes:
        if node.count is None:
            continue
        other = found.setdefault(node.label, node.count)
        if node.count.kind == "within":  # "within" also holds the limit
            found[node.label] = node.count
        if _said(other) != _said(node.count):
            raise FormulaError(f"position({node.label!r}, ...): it has {_said(other)} places, and {_said(node.count)}")
    return found


Multiples = Mapping[str, int | tuple[int, int]]
"""For each dimension, a number of which its extent is a multiple; or the number, and the remainder of the extent."""


def pair_of(multiple: int | tuple[int, int]) -> tuple[int, int]:
    """Return the number of which an extent is a multiple, and the remainder, which is 0 if none is given."""
    return multiple if isinstance(multiple, tuple) else (multiple, 0)


def parts_of(multiples: Multiples) -> Counts:
    """Return, for each dimension whose extent must be a multiple, a dimension that no tensor has, such as "n_by_8": its
    count is a whole number only if the extent is a multiple."""
    found = dict[str, Node]()
    for dim, (size, beside) in ((dim, pair_of(each)) for dim, each in multiples.items()):
        own, before = Node("extent", label=dim), beside - size if beside > 0 else beside
        found[f"{dim}_by_{size}"] = plus(own, -float(before)) / float(size)  # 1 if the extent is the remainder
    return found


def square_parts(pairs: Iterable[tuple[str, str]]) -> Counts:
    """Return two dimensions, which no tensor has, for each pair of dimensions whose extents must be equal. Their
    extents are positive only if neither dimension of the pair is longer than the other."""
    return {
        f"{one}_by_{other}": Node("extent", label=one) - Node("extent", label=other) + 1.0
        for pair in pairs for one, other in (pair, pair[::-1])
    }  # fmt: skip


def plus(count: Node, more: float) -> Node:
    """Return the expression of a count plus a number, which may be negative."""
    if count.kind == "constant":
        return Node("constant", value=count.value + more)
    return count if not more else count + more if more > 0 else count - -more


@lru_cache(maxsize=4096)  # a search asks for each case anew
def extents_of(count: Node) -> frozenset[str]:
    """Return the dimensions in `count`, the expression for the extent of another dimension, such as {"n"} for n / 2."""
    return frozenset(dim for node in ordered([count]) if node.kind == "extent" for dim in node.over)


def follows(counts: Counts, dims: Iterable[str]) -> frozenset[str]:
    """Return the dimensions, with each that has a count replaced by the dimensions from which its extent follows."""
    found, waiting = set[str](), {*dims}
    while waiting:
        dim = waiting.pop()
        waiting |= extents_of(counts[dim]) if dim in counts else set()
        found |= {dim} - counts.keys()
    return frozenset(found)


def short(counts: Counts, known: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of tensors that are too short: a dimension that follows from them would have no elements,
    or no whole number of elements, and would be longer if they were."""
    found = set[str]()
    for dim in counts:
        own, size = follows(counts, [dim]), _size(counts, known, dim)
        if size.denominator != 1 or size < 0 or (not size and all(known[each] for each in own)):
            longer = (each for each in own if _size(counts, {**known, each: known[each] + _LONGER}, dim) > size)
            found.update(longer)
    return frozenset(found)


def long(counts: Counts, known: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of tensors that are too long: a dimension that follows from them has no elements, and would
    be longer if they were half as long."""
    found = set[str]()
    for dim in counts:
        size = _size(counts, known, dim)
        if size <= 0:
            own = (each for each in follows(counts, [dim]) if known[each] > 1)
            found.update(each for each in own if _size(counts, {**known, each: known[each] // 2}, dim) > size)
    return frozenset(found)


def few(least: Mapping[str, int], counts: Counts, known: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of tensors that are too short for the least numbers of elements. A key of `least` may name
    several dimensions, whose product counts, and of which the shortest is returned. A dimension with a count is
    replaced by the dimensions from which it follows."""
    sizes = completed(counts, known, least=0)
    some = (dims.split() for dims, size in least.items() if math.prod(sizes[dim] for dim in dims.split()) < size)
    return follows(counts, (min(dims, key=sizes.__getitem__) for dims in some))


def grown(
    counts: Counts, known: Mapping[str, int], fixed: Collection[str] = (), least: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the known extents, enlarged until no dimension is too short for those that follow from it, or for the
    `least` extents. `fixed` dimensions keep their extents."""
    found, least = dict(known), least or {}
    while longer := (short(counts, found) | few(least, counts, found)).difference(fixed):
        found |= {dim: found[dim] + 1 for dim in longer}
    return found


_LONGER = 64


def _size(counts: Counts, known: Mapping[str, int], dim: str) -> Fraction:
    """Return the extent that follows for a dimension with a count, which may be a fraction or negative."""
    return value_of(counts[dim], completed(counts, known, least=0))


def completed(counts: Counts, known: Mapping[str, int], least: int | None = None) -> dict[str, int]:
    """Return the known extents and those that follow from them. With `least`, the latter are rounded up to a whole
    number, at least `least`. Without it, FormulaError is raised for a fraction or a negative extent."""
    found = {**known}
    waiting = {dim: count for dim, count in counts.items() if dim not in found}
    while ready := [dim for dim, count in waiting.items() if extents_of(count) <= found.keys()]:
        for dim in ready:
            count = waiting.pop(dim)
            size = value_of(count, found)
            if least is not None:
                size = Fraction(max(least, math.ceil(size)))
            if size.denominator != 1 or size < 0:
                sizes = ", ".join(f"{each} = {found[each]}" for each in sorted(extents_of(count)))
                raise FormulaError(f"{dim!r} has {_said(count)} = {size} places, where {sizes}")
            found[dim] = int(size)
    return {**known, **{dim: found[dim] for dim in counts if dim in found}}


def value_of(count: Node, extents: Mapping[str, int]) -> Fraction:
    """Return the value of a count. Raises FormulaError if it is made of anything but extents and numbers."""
    return _value_of(count, tuple(sorted((dim, extents[dim]) for dim in extents_of(count))))


@lru_cache(maxsize=1 << 16)  # a search asks for the same few again and again
def _value_of(count: Node, known: tuple[tuple[str, int], ...]) -> Fraction:
    if count.kind == "constant":
        return Fraction(count.value)
    if count.kind == "extent":
        return Fraction(math.prod(size for _, size in known))
    args = [value_of(arg, dict(known)) for arg in count.args]
    if count.kind in _OPERATIONS:
        return _OPERATIONS[count.kind](*args)
    if count.kind == "divide" and args[1]:
        return args[0] / args[1]
    if count.kind == "within":  # beyond the limit the value is negative, by the excess
        return args[0] if args[0] <= args[1] else args[1] - args[0]
    if count.operation == "floor":
        return Fraction(math.floor(args[0]))
    raise FormulaError(f"{_said(count)}: extents are made of extents and numbers, by + - * / and floor")


def _said(count: Node) -> str:
    """Return the source text of a count, such as "(extent(n) / 2)"."""
    if count.kind == "constant":
        return f"{count.value:g}"
    args = [_said(arg) for arg in count.args]
    if count.kind == "within":
        return args[0]
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
    if count.kind in signs:
        return f"({f' {signs[count.kind]} '.join(args)})"
    return f"{count.operation}({', '.join(args) or count.label})"
