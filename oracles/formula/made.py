"""Dimensions whose extents follow from others.

A formula says so by a position with a count, a number or an expression of extents, such as `position("o",
floor((extent("n") - 3.0) / 2.0) + 1.0)`. Inputs may have such a dimension, except the first one: with `position("half",
extent("n") / 2.0)` n is even, and a tensor that has "half" is half as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from oracles.elementary import FormulaError
from oracles.formula.node import Kind, Node, ordered

Counts = Mapping[str, Node]
"""The count of each dimension that follows from others, as an expression."""

_OPERATIONS: Mapping[Kind, Callable[[Fraction, Fraction], Fraction]] = {
    "add": Fraction.__add__, "subtract": Fraction.__sub__, "multiply": Fraction.__mul__,
}  # fmt: skip


def counts_of(nodes: Iterable[Node]) -> Counts:
    """Return the counts of the dimensions that follow from others. Raises FormulaError if one follows in two ways."""
    found = dict[str, Node]()
    for node in nodes:
        if node.count is None:
            continue
        other = found.setdefault(node.label, node.count)
        if node.count.kind == "within":  # it says more
            found[node.label] = node.count
        if _said(other) != _said(node.count):
            raise FormulaError(f"position({node.label!r}, ...): it has {_said(other)} places, and {_said(node.count)}")
    return found


Multiples = Mapping[str, int | tuple[int, int]]
"""By dimension, the number whose multiple its extent is; or that number, and a remainder."""


def pair_of(multiple: int | tuple[int, int]) -> tuple[int, int]:
    """Return the number whose multiple an extent is, and the remainder."""
    return multiple if isinstance(multiple, tuple) else (multiple, 0)


def parts_of(multiples: Multiples) -> Counts:
    """Return, for each dimension with a multiple, the dimension of its parts, which no tensor has."""
    found = dict[str, Node]()
    for dim, (size, beside) in ((dim, pair_of(each)) for dim, each in multiples.items()):
        own, before = Node("extent", label=dim), beside - size if beside > 0 else beside
        found[f"{dim}_by_{size}"] = plus(own, -float(before)) / float(size)  # 1 if there is nothing but the remainder
    return found


def square_parts(pairs: Iterable[tuple[str, str]]) -> Counts:
    """Return two dimensions, which no tensor has, for each pair that has as many elements: neither has more."""
    return {
        f"{one}_by_{other}": Node("extent", label=one) - Node("extent", label=other) + 1.0
        for pair in pairs for one, other in (pair, pair[::-1])
    }  # fmt: skip


def plus(count: Node, more: float) -> Node:
    """Return the count plus a number, which may be negative."""
    if count.kind == "constant":
        return Node("constant", value=count.value + more)
    return count if not more else count + more if more > 0 else count - -more


@lru_cache(maxsize=4096)  # a search asks for each case anew
def extents_of(count: Node) -> frozenset[str]:
    """Return the dimensions of whose extents a count is made."""
    return frozenset(dim for node in ordered([count]) if node.kind == "extent" for dim in node.over)


def follows(counts: Counts, dims: Iterable[str]) -> frozenset[str]:
    """Return dimensions of tensors; one that no tensor has is replaced by those from which its extent follows."""
    found, waiting = set[str](), {*dims}
    while waiting:
        dim = waiting.pop()
        waiting |= extents_of(counts[dim]) if dim in counts else set()
        found |= {dim} - counts.keys()
    return frozenset(found)


def short(counts: Counts, known: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of tensors that are too short for others that follow from them, which would have no element
    or no whole number of them."""
    found = set[str]()
    for dim in counts:
        own, size = follows(counts, [dim]), _size(counts, known, dim)
        if size.denominator != 1 or size < 0 or (not size and all(known[each] for each in own)):
            longer = (each for each in own if _size(counts, {**known, each: known[each] + _LONGER}, dim) > size)
            found.update(longer)
    return frozenset(found)


def long(counts: Counts, known: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of tensors that are too long for others that follow from them: half as long, these would
    have more elements."""
    found = set[str]()
    for dim in counts:
        size = _size(counts, known, dim)
        if size <= 0:
            own = (each for each in follows(counts, [dim]) if known[each] > 1)
            found.update(each for each in own if _size(counts, {**known, each: known[each] // 2}, dim) > size)
    return frozenset(found)


def few(least: Mapping[str, int], counts: Counts, known: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of tensors that are too short for a least number of elements: among several together the
    shortest, and, in place of a dimension that no tensor has, those from which it follows."""
    sizes = completed(counts, known, least=0)
    some = (dims.split() for dims, size in least.items() if math.prod(sizes[dim] for dim in dims.split()) < size)
    return follows(counts, (min(dims, key=sizes.__getitem__) for dims in some))


def grown(
    counts: Counts, known: Mapping[str, int], fixed: Collection[str] = (), least: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the known extents, with those that are too short and not fixed made long enough: for others that follow
    from them, and for the `least` extents."""
    found, least = dict(known), least or {}
    while longer := (short(counts, found) | few(least, counts, found)).difference(fixed):
        found |= {dim: found[dim] + 1 for dim in longer}
    return found


_LONGER = 64


def _size(counts: Counts, known: Mapping[str, int], dim: str) -> Fraction:
    """Return what an extent would be."""
    return value_of(counts[dim], completed(counts, known, least=0))


def completed(counts: Counts, known: Mapping[str, int], least: int | None = None) -> dict[str, int]:
    """Return known extents with those that follow from them, at least `least` each. Without a least one, raises
    FormulaError if one is no whole number, or negative."""
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
    """Return the value of a count. Raises FormulaError if it depends on anything but extents."""
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
    if count.kind == "within":  # beyond its limit it is negative by the excess
        return args[0] if args[0] <= args[1] else args[1] - args[0]
    if count.operation == "floor":
        return Fraction(math.floor(args[0]))
    raise FormulaError(f"{_said(count)}: extents are made of extents and numbers, by + - * / and floor")


def _said(count: Node) -> str:
    """Return the source text of a count."""
    if count.kind == "constant":
        return f"{count.value:g}"
    args = [_said(arg) for arg in count.args]
    if count.kind == "within":
        return args[0]
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
    if count.kind in signs:
        return f"({f' {signs[count.kind]} '.join(args)})"
    return f"{count.operation}({', '.join(args) or count.label})"
