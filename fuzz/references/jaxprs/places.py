"""What JAX takes and writes at places that are calculated, and what its loops take of their turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from fuzz.references.dims import ONE, Pair, UnreadableError
from fuzz.references.jaxprs.elementwise import along, both, primitive
from fuzz.references.jaxprs.moves import extent_at, own_axes
from fuzz.references.lines import template
from fuzz.references.maps import linear, single, taken_at, with_axis
from fuzz.references.pieces import at_start, part
from fuzz.references.reading import Reader
from fuzz.references.recurrences import made_before
from fuzz.references.scope import Value


@primitive("turns")
def _turns(reader: Reader, length: Pair) -> Value:
    """The number of turns of a loop so far."""
    [axis] = own_axes(reader, [length])
    if not axis:
        raise UnreadableError("turns once: write what it does without the loop")
    reader.turns = axis[0] if reader.turns is None else reader.turns
    if reader.turns.sizes != axis[0].sizes:
        raise UnreadableError("has loops of different lengths: formulas have recurrences along one dimension")
    return Value(reader.place(reader.turns), (), frozenset((reader.turns,)), "torch.int32")


@primitive("before")
def _before(reader: Reader, args: Sequence[Any]) -> Value:
    """What the turn before made: in the first one what it begins with."""
    made, start, turns = cast(Sequence[Value], args)
    dim = along(reader, turns)
    assert dim is not None
    return made_before(reader, made, start, dim)


@primitive("while")
def _while(reader: Reader, **_: object) -> Value:
    raise UnreadableError("turns as often as a value says: a formula has loops over a dimension")


@primitive("cond")
def _cond(reader: Reader, **_: object) -> Value:
    raise UnreadableError("does what a value says: write jnp.where")


@primitive("dynamic_slice")
def _dynamic_slice(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    shape, found, starts = reader.shape(), cast(Value, args[0]), args[1:]
    for at, start in enumerate(starts):
        whole = extent_at(found, at)
        if whole == shape[at]:
            continue
        if not isinstance(start, Value):
            first = at_start(start, whole)
            last = first[0] + shape[at][0], first[1] + shape[at][1]
            found = part(reader, found, at, first, last, 1, shape[at])
        elif shape[at] == ONE:
            found = picked(reader, found, at, start)
        else:
            raise UnreadableError("takes a part whose place is calculated: a formula has one element of such")
    return found


def picked(reader: Reader, value: Value, at: int, index: Value) -> Value:
    """Return a value with the elements at a place, or places, along an axis, which has one element then."""
    value, dim = single(reader, value, at)
    if along(reader, index) == dim:
        return with_axis(value, at, ())
    if index.places:
        known = reader.indices.setdefault(index.places, dim.name)
        if known != dim.name:
            raise UnreadableError(f"takes {index.places!r} for places along {dim.name!r}, and along {known!r}")
    places = index.expression if index.places else reader.expression(index)
    assert places is not None
    return with_axis(taken_at(reader, value, dim, places, index.has), at, ())


@primitive("dynamic_update_slice")
def _dynamic_update_slice(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    (whole, update), starts = cast(Sequence[Value], args[:2]), args[2:]
    inside: Value | None = None
    for at, start in enumerate(starts):
        size, own = extent_at(whole, at), extent_at(update, at)
        if size == own:
            continue
        if isinstance(start, Value):
            raise UnreadableError("writes to a place that is calculated: a formula returns its outputs")
        first = at_start(start, size)
        whole, dim = single(reader, whole, at)
        if first[0] != first[1] or own[0] != own[1]:
            raise UnreadableError("writes to a place that follows from extents: concatenate the parts")
        index = linear(reader, {dim: 1.0}, -float(first[0]))
        update = with_axis(taken_at(reader, *single(reader, update, at), index, (dim,), 0.0), at, (dim,))
        text = f"(place >= {first[0]}.0) & (place < {first[0] + own[0]}.0)"
        made = reader.lines.add(template(text, {"place": reader.place(dim)}), "mask")
        axes = tuple((dim,) if place == at else () for place in range(whole.rank))
        mask = Value(None, axes, frozenset((dim,)), "torch.bool", condition=made)
        inside = mask if inside is None else both(reader, "a & b", inside, mask)
    if inside is None:
        return update
    parts = {"mask": reader.mask(inside), "a": reader.expression(update), "b": reader.expression(whole)}
    made = reader.lines.add(template("f.where(mask, a, b)", parts), "written")
    return Value(made, whole.axes, whole.has | update.has | inside.has, whole.dtype)
