"""Operations that take parts of axes, join them, or move elements along them: slices, pads, cat, roll, flip, cumsum."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from fuzz.references.dims import Dim, MisfitError, Pair, UnreadableError, extent
from fuzz.references.elementwise import rule
from fuzz.references.lines import number, template
from fuzz.references.maps import as_axis, by_steps, linear, single, spread, taken_at, with_axis
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.scope import Number, Value
from fuzz.references.sizes import MOST_PARTS, added, floored, negated, of
from oracles.formula.made import plus
from oracles.formula.node import Node


@rule("slice")
def _slice(reader: Reader, self: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    at, shape = reader.axis(self, dim), reader.shape()
    if shape[at] == extent(self.axes[at]):
        return self
    if not isinstance(step, int):
        raise UnreadableError("takes steps that follow from extents")
    whole = extent(self.axes[at])
    first, last = (at_start(each, whole) for each in (start or 0, whole if end is None else end))
    return part(reader, self, at, first, last, step, shape[at])


@rule("split", "split_with_sizes")
def split_up(reader: Reader, self: Value, dim: int = 0, **_: object) -> Sequence[Value]:
    """Return the parts of a value along an axis, as long as the results of the step."""
    at, start, found = reader.axis(self, dim), (0, 0), list[Value]()
    for shape in reader.step.shapes:
        end = start[0] + shape[at][0], start[1] + shape[at][1]
        found.append(part(reader, self, at, start, end, 1, shape[at]))
        start = end
    return found


def part(reader: Reader, value: Value, at: int, first: Pair, last: Pair, step: int, size: Pair) -> Value:
    """Return the slice first:last:step of a value along axis `at`; `size` is its number of elements in both calls."""
    value, along = single(reader, value, at)
    begin, stop = place_of(reader, first, along), place_of(reader, last, along)
    length = plus(stop, -begin.value) if begin.kind == "constant" else stop - begin
    count = floored(plus(length, step - 1.0), step)
    if step > 1 and all(size % step == 0 for size in along.sizes):  # the axis has whole steps
        count = reader.sizes.plainer(of(along) / float(step), count)
    if reader.sizes.pair(count) != size:
        raise MisfitError("takes a part whose length follows from extents in a way that is not known")
    places = reader.axis_of(count, f"{along.name}_part", at, value)
    index = linear(reader, dict.fromkeys(places, float(step)), begin)
    return with_axis(taken_at(reader, value, along, index, places), at, places)


@rule("select")
def _select(reader: Reader, self: Value, dim: int, index: Any) -> Value:
    at = reader.axis(self, dim)
    axes = (*self.axes[:at], *self.axes[at + 1 :])
    if not self.axes[at]:
        return replace(self, axes=axes)
    value, along = single(reader, self, at)
    start = at_start(index, along.sizes)
    if isinstance(value.expression, ast.Name) and value.expression.id in reader.stacks and value.dtype != "torch.bool":
        return replace(reader.stacks[value.expression.id][start[0]], axes=axes)
    place = place_of(reader, start, along)
    return replace(taken_at(reader, value, along, reader.sizes.expression(place), ()), axes=axes)


@rule("diagonal")
def _diagonal(reader: Reader, self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return the main diagonal of two axes, which becomes the last axis."""
    one, other = range(self.rank)[dim1], range(self.rank)[dim2]
    if offset or extent(self.axes[one]) != extent(self.axes[other]):
        raise UnreadableError("takes a diagonal that is not the main one of a square")
    value, along = single(reader, self, one)
    value, beside = single(reader, value, other)
    value = taken_at(reader, value, beside, reader.place(along), [along])
    return replace(value, axes=(*(axis for at, axis in enumerate(value.axes) if at not in (one, other)), (along,)))


@rule("unbind")
def _unbind(reader: Reader, self: Value, dim: int = 0) -> Sequence[Value]:
    at = reader.axis(self, dim)
    return [_select(reader, self, at, place) for place in range(len(reader.step.shapes))]


def at_start(given: Any, sizes: Pair) -> Pair:
    """Return a place along an axis in both calls, counted from the start and limited to the extents `sizes`."""
    both = (int(given.first), int(given.second)) if isinstance(given, Two) else given
    first, second = both if isinstance(both, tuple) else (both, both)
    found = [
        min(max(place + size if place < 0 else place, 0), size)
        for place, size in zip((first, second), sizes, strict=True)
    ]
    return found[0], found[1]


def place_of(reader: Reader, pair: Pair, along: Dim) -> Node:
    """Return the expression of a place: a constant, the extent of another dimension, the extent of its own axis minus a
    number or divided by one, or another count."""
    if pair[0] == pair[1]:
        return Node("constant", value=float(pair[0]))
    if pair == along.sizes:
        return of(along)
    less = [size - place for place, size in zip(pair, along.sizes, strict=True)]
    known = [dim for dim in reader.sizes if dim.sizes == pair]
    if known:
        return of(known[0])
    if less[0] == less[1]:
        return plus(of(along), -float(less[0]))
    for parts in range(2, MOST_PARTS + 1 if not reader.calls else 0):
        shares = of(along) / float(parts), floored(of(along), parts), floored(plus(of(along), parts - 1.0), parts)
        is_whole = all(size % parts == 0 for size in along.sizes)
        for share, times in product(shares, range(1, parts)):
            place = share if times == 1 else share * float(times)
            if reader.sizes.pair(place) == pair and (share is not shares[0] or is_whole):
                reader.guessed = True
                return place
    count = reader.count_of(pair)
    if count is None:
        raise MisfitError(f"takes from place {pair[0]} here and {pair[1]} with other extents, which is no part of them")
    return count


@rule("constant_pad_nd")
def _pad(reader: Reader, self: Value, pad: Sequence[Number], value: Number = 0) -> Value:
    if isinstance(value, Two):
        raise UnreadableError("pads by a number that follows from extents")
    for place in range(0, len(pad), 2):
        if pad[place] == pad[place + 1] == 0:
            continue
        self = padded(reader, self, self.rank - 1 - place // 2, pad[place : place + 2], float(value))
    return self


def padded(reader: Reader, value: Value, at: int, pads: Sequence[Number], outside: float, apart: int = 1) -> Value:
    """Return a value with a number before and after the elements of an axis, and between them if they lie `apart`."""
    before, after = map(reader.amount, pads)
    value, along = single(reader, value, at)
    count = of(along) if apart == 1 else plus((of(along) - 1.0) * float(apart), 1.0)
    places = reader.axis_of(added(added(count, before), after), f"{along.name}_pad", at, value)
    index = by_steps(linear(reader, dict.fromkeys(places, 1.0), negated(before)), apart)
    return with_axis(taken_at(reader, value, along, index, places, outside), at, places)


@rule("stack")
def _stack(reader: Reader, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Return the tensors stacked along a new dimension, one at each place."""
    if len(tensors) == 1:
        return _with_unit(tensors[0], dim)
    one, *rest = reader.met(*(_with_unit(each, dim) for each in tensors))
    own = reader.sizes.new(Node("constant", value=float(len(tensors))), "stacked")
    axes = reader.aligned([one, *rest])
    at = range(len(axes))[dim]
    place, made, has = reader.place(own), reader.expression(rest[-1]), one.has.union(*(each.has for each in rest))
    for number_, each in reversed([*enumerate([one, *rest[:-1]])]):
        made = reader.add("f.where(place < end, a, b)", "stacked", place=place, end=number_ + 1.0, a=each, b=made)
    reader.stacks[getattr(made, "id", "")] = one, *rest
    return Value(made, (*axes[:at], (own,), *axes[at + 1 :]), has | {own}, one.dtype)


def _with_unit(value: Value, dim: int) -> Value:
    at = dim % (value.rank + 1)
    return replace(value, axes=(*value.axes[:at], (), *value.axes[at:]))


@rule("cat", "concatenate")
def joined(reader: Reader, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Return values joined along an axis."""
    some = [each for each in tensors if each.axes != ((),) or each.rank == len(reader.shape())]
    at = range(len(reader.shape()))[dim]
    # A piece that is always empty, such as the rest of halves of an even extent, gets no dimension.
    some = [each for each in some if extent(each.axes[at]) != (0, 0)] or some
    pieces, along = list[Value](), list[Dim]()
    for each in some:
        piece, own = single(reader, each, at)
        pieces.append(piece)
        along.append(own)
    whole: Node = of(along[0])
    for own in along[1:]:
        whole = whole + of(own)
    places = reader.axis_of(whole, f"{along[0].name}_joined", at, *pieces)
    found: Value | None = None
    start: ast.expr = number(0.0)
    starts = list[ast.expr]()
    for own in along:
        starts.append(start)
        size = template("f.extent(dim)", dim=own)
        start = template("a + b", a=start, b=size) if len(starts) > 1 else size
    place = linear(reader, dict.fromkeys(places, 1.0), 0.0)
    for piece, own, start in reversed([*zip(pieces, along, starts, strict=True)]):
        index = template("a - b", a=place, b=start) if start is not starts[0] else place
        taken = with_axis(taken_at(reader, piece, own, index, places, 0.0), at, places)
        if found is None:
            found = taken
            continue
        taken, found = reader.met(taken, found)
        end = starts[along.index(own) + 1] if along.count(own) == 1 else starts[pieces.index(piece) + 1]
        made = reader.add("f.where(place < end, a, b)", "joined", place=place, end=end, a=taken, b=found)
        found = Value(made, reader.aligned([taken, found]), taken.has | found.has | {*places}, found.dtype)
    assert found is not None
    return found


@rule("roll")
def _roll(reader: Reader, self: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims or not all(isinstance(each, int) for each in shifts):
        raise UnreadableError("rolls all elements, or by what follows from extents: name the dimensions")
    for shift, each in zip(shifts, dims, strict=True):
        at = reader.axis(self, each)
        if not self.axes[at]:
            continue
        value, along = single(reader, self, at)
        place = linear(reader, {along: 1.0}, -float(shift))
        index = template("a - f.extent(n) * f.floor(a / f.extent(n))", a=place, n=along)
        self = taken_at(reader, value, along, index, [along])
    return self


@rule("flip")
def flipped(reader: Reader, self: Value, dims: Sequence[int]) -> Value:
    """Return a value with its elements reversed along axes."""
    for at in reader.axes(self, dims):
        if self.axes[at]:
            self, along = single(reader, self, at)
            index = template("f.extent(n) - 1.0 - place", n=along, place=reader.place(along))
            self = taken_at(reader, self, along, index, [along])
    return self


@rule("cumprod")
def multiplied_up_to(reader: Reader, self: Value, dim: int, **_: object) -> Value:
    """Return, at each place along an axis, the product of all elements up to that place."""
    at = reader.axis(self, dim)
    return _multiplied(reader, self, at, "f.cumprod(x, dim)") if self.axes[at] else self


@rule("prod")
def multiplied(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False, **_: object) -> Value:
    """Return the product of all elements along axes."""
    for at in reversed(reader.axes(self, dim)):
        gone = self.axes[at]
        value = _multiplied(reader, self, at, "f.prod(x, dim)") if gone else self
        axes = (*self.axes[:at], *([()] if keepdim else ()), *self.axes[at + 1 :])
        self = replace(value, axes=axes, has=value.has.difference(value.axes[at]))
    return self


def _multiplied(reader: Reader, value: Value, at: int, text: str) -> Value:
    """Return products along an axis, which is kept; `text` is the template that makes them."""
    value, along = single(reader, value, at)
    value = value if along in value.has else spread(reader, value, along)
    return replace(value, expression=reader.add(text, "product", x=value, dim=along), condition=None)


@rule("cumsum")
def cumulated(reader: Reader, self: Value, dim: int, **_: object) -> Value:
    """Return, at each place along an axis, the sum up to that place, added in any order, since kernels differ."""
    return _up_to(reader, self, dim, "total", "sums")


@rule("cummax", "cummin")
def greatest_so_far(reader: Reader, self: Value, dim: int, **_: object) -> tuple[Value, None]:
    """Return, at each place along an axis, the maximum or minimum up to that place, and nothing for where it stands."""
    if reader.step.op.endswith("max"):
        return _up_to(reader, self, dim, "greatest", "most"), None
    found = _up_to(reader, reader.each("-x", "t", x=self), dim, "greatest", "t")
    return reader.line("-x", "least", found, x=found), None


def _up_to(reader: Reader, self: Value, dim: int, how: str, hint: str) -> Value:
    """Return the reductions of the elements up to each place along an axis."""
    at = reader.axis(self, dim)
    if not self.axes[at]:
        return self
    value, along = single(reader, self, at)
    up_to = reader.sizes.new(of(along), f"{along.name}_up_to")
    copy = as_axis(reader, value, at, (up_to,))
    none, j, i = 0.0 if how == "total" else -math.inf, reader.place(up_to), reader.place(along)
    made = reader.add("f.where(j <= i, x, none)", "terms", j=j, i=i, x=copy, none=none)
    terms = Value(made, (*value.axes, (up_to,)), copy.has | {along, up_to}, self.dtype)
    return reader.reduced(how, hint, terms, -1, False)


@rule("linalg_cross", "cross")
def _cross(reader: Reader, self: Value, other: Value, dim: int = -1) -> Value:
    """Return the cross product along an axis of three elements."""
    a1, a2, b1, b2 = (_roll(reader, each, (by,), (dim,)) for each in (self, other) for by in (-1, -2))
    return reader.each("a1 * b2 - a2 * b1", "cross", a1=a1, b2=b2, a2=a2, b1=b1)
