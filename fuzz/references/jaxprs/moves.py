"""JAX's primitives that move or make elements: views, broadcasts, positions, slices, pads and concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from fuzz.references.dims import ONE, Pair, UnreadableError
from fuzz.references.jaxprs.elementwise import primitive
from fuzz.references.lines import number, of_dims, template
from fuzz.references.maps import linear, regrouped, single, taken_at, with_axis
from fuzz.references.moves import new_axes
from fuzz.references.pieces import flipped, joined, padded, pair_along, part, split_up
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.scope import Value
from fuzz.references.sizes import of


def pair_of(given: Any) -> Pair:
    """Return the pair of a number's values in the two recorded calls."""
    return (int(given.first), int(given.second)) if isinstance(given, Two) else (int(given), int(given))


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
        return Value(reader.number(value), new_axes(reader, shape), frozenset(), reader.step.dtype)
    known = {at: axis for at, axis in zip(broadcast_dimensions, value.axes, strict=True) if axis}
    made = iter(new_axes(reader, [pair for at, pair in enumerate(shape) if at not in known]))
    return replace(value, axes=tuple(known[at] if at in known else next(made) for at in range(len(shape))))


@primitive("full", "full_like")
def _full(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    return Value(reader.number(args[0]), new_axes(reader, reader.shape()), frozenset(), reader.step.dtype)


@primitive("iota")
def _iota(reader: Reader, args: Sequence[Any], dimension: int, **_: object) -> Value:
    axes = new_axes(reader, reader.shape())
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
        if pair_along(found, at) != shape[at]:
            found = part(reader, found, at, pair_of(first), pair_of(last), step, shape[at])
    return found


@primitive("split")
def _split(reader: Reader, args: Sequence[Any], axis: int, **_: object) -> Sequence[Value]:
    found: Sequence[Value] = split_up(reader, args[0], axis)
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
    whole = pair_along(args[0], axis)
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
        if not isinstance(between, int) or isinstance(outside, Two):
            raise UnreadableError("pads by what follows from extents")
        found = padded(reader, found, at, (before, after), float(outside), between + 1)
    return found
