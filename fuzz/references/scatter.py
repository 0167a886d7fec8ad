"""Writes and sums at given places: slice_scatter, scatter_add, index_add, index_put, and gradients of gathers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Axis, Dim, UnreadableError, extent
from fuzz.references.elementwise import rule, where
from fuzz.references.lines import of_dims, template
from fuzz.references.maps import as_axis, by_steps, linear, single, taken_at, with_axis
from fuzz.references.moves import taken
from fuzz.references.pieces import at_start, place_of
from fuzz.references.reading import Reader
from fuzz.references.scope import Number, Value
from fuzz.references.selection import ranks_in
from fuzz.references.sizes import negated


def is_place(reader: Reader, index: Value, dim: Dim, along: Dim | None = None) -> ast.expr:
    """Return the condition that an index is the place along a dimension, or along `along`, a copy of it."""
    if not index.places or not isinstance(index.expression, ast.Name):
        raise UnreadableError(
            "puts elements at places that it calculates: a formula puts them at those of an input of integers"
        )
    return template("place == index", place=reader.place(along or dim), index=reader.place_along(index, dim))


def counted_into(reader: Reader, source: Value, index: Value, along: Sequence[int], axis: Axis, at: int) -> Value:
    """Return, at each place of an axis, the sum of all elements of a source with this index. The axis replaces the axes
    `along` which these elements lie. The index has axes of the source."""
    if len(axis) != 1:
        raise UnreadableError("puts elements along what is no dimension")
    [dim] = axis
    taken = {each for own in (*source.axes, *index.axes) for each in own}
    into = reader.copy(dim, taken) if dim in taken else dim  # the index may have this dimension itself
    made = reader.add("f.where(mask, x, 0.0)", "hits", mask=is_place(reader, index, dim, into), x=source)
    terms = Value(made, source.axes, source.has | index.has | {into}, source.dtype)
    found = reader.reduced("total", "sums", terms, [*along], False)
    axes = [*found.axes]
    axes.insert(at, (into,))
    return as_axis(reader, Value(found.expression, tuple(axes), found.has, found.dtype), at, axis)


@rule("index_add")
def _index_add(reader: Reader, self: Value, dim: int, index: Value, source: Value, alpha: Number = 1) -> Value:
    at = reader.axis(self, dim)
    source = _lying_as(reader, source, index, at)
    found = counted_into(reader, source, index, [at], self.axes[at], at)
    return reader.each("self + alpha * sums", "added", self=self, alpha=alpha, sums=found)


@rule("scatter_add")
def _scatter_add(reader: Reader, self: Value, dim: int, index: Value, src: Value) -> Value:
    at = reader.axis(self, dim)
    if any(a != b for place, (a, b) in enumerate(zip(self.axes, src.axes, strict=True)) if place != at):
        raise UnreadableError("puts elements along one dimension that have others than what they go to")
    if index.axes != src.axes:
        raise UnreadableError("has fewer places than elements")
    found = counted_into(reader, src, index, [at], self.axes[at], at)
    return reader.each("self + sums", "added", self=self, sums=found)


@rule("scatter.value")
def _scatter(reader: Reader, self: Value, dim: int, index: Value, value: Number) -> Value:
    at = reader.axis(self, dim)
    if any(mine and mine != theirs for place, (mine, theirs) in enumerate(zip(index.axes, self.axes, strict=True))
           if place != at):  # fmt: skip
        raise UnreadableError("puts numbers along one dimension that have others than what they go to")
    ones = Value(reader.number(1.0), index.axes)
    hits = reader.compared("a > 0.0", a=counted_into(reader, ones, index, [at], self.axes[at], at))
    return where(reader, hits, value, self)


@rule("index_copy")
def _index_copy(reader: Reader, self: Value, dim: int, index: Value, source: Value) -> Value:
    at = reader.axis(self, dim)
    return _copied_into(reader, self, _lying_as(reader, source, index, at), index, at)


@rule("scatter.src")
def _scatter_of(reader: Reader, self: Value, dim: int, index: Value, src: Value) -> Value:
    at = reader.axis(self, dim)
    if index.axes != src.axes:
        raise UnreadableError("has fewer places than elements")
    return _copied_into(reader, self, src, index, at)


def _copied_into(reader: Reader, self: Value, source: Value, index: Value, at: int) -> Value:
    """Return a value with elements of a source at the places in an index. If several have one place, any is right. If
    the index is the order of a sorted row, each place is there once: it takes the element that has its rank."""
    if (back := ranks_in(reader, index, at)) is not None:
        return replace(taken(reader, source, at, back, "unsorted"), axes=self.axes)
    source, along = single(reader, source, at)
    [dim] = self.axes[at] or [along]
    into = reader.copy(dim, {along, *(each for axis in (*source.axes, *index.axes) for each in axis)})
    hits = reader.add("f.where(m, 1.0, 0.0)", "hits", m=is_place(reader, index, dim, into))
    first = {"hits": hits, "dim": of_dims([along])}
    place = reader.add("f.argmax(hits, dim)", "place", **first)
    has = index.has - {along} | {into}
    axes = (*source.axes[:at], (into,), *source.axes[at + 1 :])
    copied = replace(taken_at(reader, source, along, place, has), axes=axes)
    hit = Value(reader.add("f.greatest(hits, dim)", "hit", **first), axes, has)
    copied, hit = (as_axis(reader, each, at, self.axes[at]) for each in (copied, hit))
    return where(reader, reader.compared("a > 0.0", a=hit), copied, self)


@rule("scatter_reduce")
def _scatter_reduce(
    reader: Reader, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    if reduce != "sum" or not include_self:
        raise UnreadableError(f"reduces by {reduce!r}: sums to what is there have a formula")
    return _scatter_add(reader, self, dim, index, src)


@rule("index_put", "_unsafe_index_put")
def _index_put(
    reader: Reader, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False, **_: Any
) -> Value:
    there = [(at, each) for at, each in enumerate(indices) if each is not None]
    if len(there) == 1 and there[0][1].dtype == "torch.bool" and not (accumulate or values.rank):
        at, mask = there[0]
        return where(reader, replace(mask, axes=mask.axes + ((),) * (self.rank - at - mask.rank)), values, self)
    if not accumulate or len(there) != 1 or there[0][1].dtype == "torch.bool":
        raise UnreadableError("puts elements at places that may be the same: sums along one dimension have a formula")
    [(at, index)] = there
    values = _lying_as(reader, values, index, at)
    sums = counted_into(reader, values, index, [*range(at, at + index.rank)], self.axes[at], at)
    return reader.each("self + sums", "added", self=self, sums=sums)


def _lying_as(reader: Reader, source: Value, index: Value, at: int) -> Value:
    """Return a source whose axes from `at` on are those of an index, with one element along constant ones."""
    own = source.axes[at : at + index.rank]
    if any(mine and mine != theirs for mine, theirs in zip(own, index.axes, strict=True)):
        raise UnreadableError("has other elements than places")
    return Value(
        source.expression, (*source.axes[:at], *index.axes, *source.axes[at + index.rank :]), source.has, source.dtype,
        source.condition, source.places,
    )  # fmt: skip


@rule("slice_scatter")
def _written(
    reader: Reader, self: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """Return a value with the source in place of the elements that a slice covers."""
    if not isinstance(step, int):
        raise UnreadableError("takes steps that follow from extents")
    at = reader.axis(self, dim)
    first = at_start(start or 0, extent(self.axes[at]))
    if step == 1 and first == (0, 0) and extent(src.axes[at]) == extent(self.axes[at]):
        return replace(src, axes=self.axes)
    self, along = single(reader, self, at)
    src, own = single(reader, src, at)
    begin = place_of(reader, first, along)
    index = linear(reader, {along: 1.0}, negated(begin))
    if step > 1:
        index = reader.lines.add(by_steps(index, step), "index")
    written = with_axis(taken_at(reader, src, own, index, (along,), 0.0), at, (along,))
    written, self = reader.met(written, self)
    there = ["(index >= 0.0)"] * (first != (0, 0)) + ["(f.floor(index) >= index)"] * (step > 1)
    there += ["(index < f.extent(n))"] * (end is not None and at_start(end, along.sizes) != along.sizes)
    made = reader.add(f"f.where({' & '.join(there)}, a, b)", "written", index=index, n=own, a=written, b=self)
    return Value(made, reader.aligned([written, self]), written.has | self.has | {along}, self.dtype)


@rule("select_scatter")
def _placed(reader: Reader, self: Value, src: Value, dim: int, index: Any) -> Value:
    """Return a value with the source in place of the elements at one place along an axis."""
    at = reader.axis(self, dim)
    src = replace(src, axes=(*src.axes[:at], (), *src.axes[at:]))
    if not self.axes[at]:
        return replace(src, axes=self.axes)
    self, along = single(reader, self, at)
    place = reader.sizes.expression(place_of(reader, at_start(index, along.sizes), along))
    src, self = reader.met(src, self)
    made = reader.add("f.where(at == place, a, b)", "written", at=reader.place(along), place=place, a=src, b=self)
    return Value(made, reader.aligned([src, self]), src.has | self.has | {along}, self.dtype)
