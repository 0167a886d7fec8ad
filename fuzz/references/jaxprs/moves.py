"""JAX's primitives that move or make elements: views, broadcasts, positions, slices, pads and concatenations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from fuzz.references.dims import ONE, Axis, Pair, UnreadableError
from fuzz.references.jaxprs.elementwise import primitive
from fuzz.references.lines import number, of_dims, template
from fuzz.references.maps import linear, regrouped, single, taken_at, with_axis
from fuzz.references.pieces import flipped, joined, part
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.scope import Number, Value
from fuzz.references.sizes import added, negated, of
from oracles.formula.made import plus


def pair_of(given: Any) -> Pair:
    """Return the pair of a number's values in the two recorded calls."""
    return (int(given.first), int(given.second)) if isinstance(given, Two) else (int(given), int(given))


def own_axes(reader: Reader, shape: Sequence[Pair]) -> tuple[Axis, ...]:
    """Return axes for an array that a reference creates. A second axis of one extent has a dimension of its own."""
    found = list[Axis]()
    for pair in shape:
        axis = reader.dim(pair)
        if axis and axis in found:
            axis = (reader.copy(axis[0], {dim for each in found for dim in each}),)
        found.append(axis)
    return tuple(found)


@primitive("reshape")
def _reshape(reader: Reader, args: Sequence[Value], **_: object) -> Value:
    return regrouped(reader, args[0], reader.shape())


@primitive("squeeze")
def _squeeze(reader: Reader, args: Sequence[Value], dimensions: Sequence[int]) -> Value:
    gone = {at % args[0].rank for at in dimensions}
    return replace(args[0], axes=tuple(axis for at, axis in enumerate(args[0].axes) if at not in gone))


@primitive("transpose")
def _transpose(reader: Reader, args: Sequence[Value], permutation: Sequence[int]) -> Value:
    return replace(args[0], axes=tuple(args[0].axes[at] for at in permutation))


@primitive("broadcast_in_dim")
def _broadcast(reader: Reader, args: Sequence[Any], broadcast_dimensions: Sequence[int], **_: object) -> Value:
    value, shape = args[0], reader.shape()
    if not isinstance(value, Value):
        return Value(reader.number(value), own_axes(reader, shape), frozenset(), reader.step.dtype)
    known = {at: axis for at, axis in zip(broadcast_dimensions, value.axes, strict=True) if axis}
    made = iter(own_axes(reader, [pair for at, pair in enumerate(shape) if at not in known]))
    return replace(value, axes=tuple(known[at] if at in known else next(made) for at in range(len(shape))))


@primitive("full", "full_like")
def _full(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    return Value(reader.number(args[0]), own_axes(reader, reader.shape()), frozenset(), reader.step.dtype)


@primitive("iota")
def _iota(reader: Reader, args: Sequence[Any], dimension: int, **_: object) -> Value:
    axes = own_axes(reader, reader.shape())
    axis = axes[dimension]
    made = reader.place(axis[0]) if axis else number(0.0)
    return Value(made, axes, frozenset(axis), reader.step.dtype)


@primitive("rev")
def _rev(reader: Reader, args: Sequence[Value], dimensions: Sequence[int]) -> Value:
    found: Value = flipped(reader, args[0], dimensions)
    return found


@primitive("slice")
def _slice(
    reader: Reader,
    args: Sequence[Any],
    start_indices: Sequence[Any],
    limit_indices: Sequence[Any],
    strides: Any,
    **_: object,
) -> Value:
    shape, found = reader.shape(), cast(Value, args[0])
    for at, (first, last) in enumerate(zip(start_indices, limit_indices, strict=True)):
        step = 1 if strides is None else strides[at]
        if not isinstance(step, int):
            raise UnreadableError("takes steps that follow from extents")
        if extent_at(found, at) != shape[at]:
            found = part(reader, found, at, pair_of(first), pair_of(last), step, shape[at])
    return found


def extent_at(value: Value, at: int) -> Pair:
    """Return the extent of an axis in both calls."""
    return math.prod(dim.sizes[0] for dim in value.axes[at]), math.prod(dim.sizes[1] for dim in value.axes[at])


@primitive("split")
def _split(reader: Reader, args: Sequence[Any], axis: int, **_: object) -> Sequence[Value]:
    start, found = (0, 0), list[Value]()
    for shape in reader.step.shapes:
        end = start[0] + shape[axis][0], start[1] + shape[axis][1]
        found.append(part(reader, args[0], axis, start, end, 1, shape[axis]))
        start = end
    return found


class PlaceColumns(tuple[Value, ...]):
    """Places along several dimensions, in one array's last axis as JAX gathers by them; here one value for each."""

    __slots__ = ()


@primitive("concatenate")
def _concatenate(reader: Reader, args: Sequence[Any], dimension: int) -> Any:
    is_last = dimension == args[0].rank - 1
    if "int" in reader.step.dtype and is_last and all(not each.axes[dimension] for each in args):
        return PlaceColumns(args)
    found: Value = joined(reader, args, dimension)
    return found


@primitive("stack")
def _stack(reader: Reader, args: Sequence[Value], axis: int) -> Value:
    apart = [replace(each, axes=(*each.axes[:axis], (), *each.axes[axis:])) for each in args]
    found: Value = joined(reader, apart, axis)
    return found


@primitive("unstack")
def _unstack(reader: Reader, args: Sequence[Value], axis: int) -> Sequence[Value]:
    whole = extent_at(args[0], axis)
    found = (part(reader, args[0], axis, (at, at), (at + 1, at + 1), 1, ONE) for at in range(whole[0]))
    return [replace(each, axes=(*each.axes[:axis], *each.axes[axis + 1 :])) for each in found]


@primitive("tile")
def _tile(reader: Reader, args: Sequence[Value], reps: Sequence[Any]) -> Value:
    found = args[0]
    for at, times in enumerate(reps):
        if times == 1:
            continue
        if isinstance(times, Two):
            raise UnreadableError("repeats as often as extents say")
        found, dim = single(reader, found, at)
        places = reader.sizes.axis(of(dim) * float(times), f"{dim.name}_times")
        parts = {
            "a": linear(reader, dict.fromkeys(places, 1.0), 0.0),
            "n": template("f.extent(dim)", {"dim": of_dims([dim])}),
        }
        index = template("a - n * f.floor(a / n)", parts)
        found = with_axis(taken_at(reader, found, dim, index, places), at, places)
    return found


@primitive("pad")
def _pad(reader: Reader, args: Sequence[Any], padding_config: Sequence[tuple[Any, Any, Any]]) -> Value:
    found, outside = cast(Value, args[0]), args[1]
    if isinstance(outside, Value):
        raise UnreadableError("pads by what is calculated: formulas pad by a number")
    for at, (before, after, between) in enumerate(padding_config):
        if (before, after, between) == (0, 0, 0):
            continue
        found = _padded(reader, found, at, before, after, between, outside)
    return found


def _padded(reader: Reader, value: Value, at: int, before: Any, after: Any, between: Any, outside: Number) -> Value:
    if not isinstance(between, int) or isinstance(outside, Two):
        raise UnreadableError("pads by what follows from extents")
    value, dim = single(reader, value, at)
    step = between + 1
    count = of(dim) if step == 1 else plus((of(dim) - 1.0) * float(step), 1.0)
    offset, more = map(reader.amount, (before, after))
    count = added(added(count, offset), more)
    places = reader.sizes.axis(count, f"{dim.name}_pad")
    index = linear(reader, dict.fromkeys(places, 1.0), negated(offset))
    if step > 1:
        index = template("a / step", {"a": index, "step": number(float(step))})
    return with_axis(taken_at(reader, value, dim, index, places, float(outside)), at, places)
