"""JAX's primitives that move or make elements: views, broadcasts, positions, slices, pads and concatenations; those
that read and write at calculated places; and the values that loops use of their iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from fuzz.references.dims import ONE, Axis, Pair, UnreadableError, extent
from fuzz.references.elementwise import both, where
from fuzz.references.jaxprs.elementwise import along, primitive
from fuzz.references.lines import is_number, number, template
from fuzz.references.maps import linear, regrouped, single, taken_at, with_axis
from fuzz.references.moves import new_axes
from fuzz.references.pieces import at_start, flipped, joined, padded, part, split_up
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.recurrences import made_before
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
    return flipped(reader, args[0], dimensions)


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
        if extent(found.axes[at]) != shape[at]:
            found = part(reader, found, at, pair_of(first), pair_of(last), step, shape[at])
    return found


@primitive("split")
def _split(reader: Reader, args: Sequence[Any], axis: int, **_: object) -> Sequence[Value]:
    return split_up(reader, args[0], axis)


class PlaceColumns(tuple[Value, ...]):
    """Places along several dimensions, in one array's last axis as JAX gathers by them; here one value for each."""

    __slots__ = ()


@primitive("concatenate")
def _concatenate(reader: Reader, args: Sequence[Any], dimension: int) -> Any:
    is_last = dimension == args[0].rank - 1
    if "int" in reader.step.dtype and is_last and all(not each.axes[dimension] for each in args):
        return PlaceColumns(args)
    return joined(reader, args, dimension)


@primitive("stack")
def _stack(reader: Reader, args: Sequence[Value], axis: int) -> Value:
    apart = [replace(each, axes=(*each.axes[:axis], (), *each.axes[axis:])) for each in args]
    return joined(reader, apart, axis)


@primitive("unstack")
def _unstack(reader: Reader, args: Sequence[Value], axis: int) -> Sequence[Value]:
    whole = extent(args[0].axes[axis])
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
        place = linear(reader, dict.fromkeys(places, 1.0), 0.0)
        index = template("a - f.extent(n) * f.floor(a / f.extent(n))", a=place, n=dim)
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


@primitive("iterations")
def _iterations(reader: Reader, length: Pair) -> Value:
    """Return the number of the iteration of a loop."""
    [axis] = new_axes(reader, [length])
    if not axis:
        raise UnreadableError("loops once: write what it does without the loop")
    reader.iterations = axis[0] if reader.iterations is None else reader.iterations
    if reader.iterations.sizes != axis[0].sizes:
        raise UnreadableError("has loops of different lengths: formulas have recurrences along one dimension")
    return Value(reader.place(reader.iterations), (), frozenset((reader.iterations,)), "torch.int32")


@primitive("before")
def _before(reader: Reader, args: Sequence[Any]) -> Value:
    """Return the value that a state has before each iteration: the previous result, or first the initial value."""
    made, start, iterations = cast(Sequence[Value], args)
    dim = along(reader, iterations)
    assert dim is not None
    return made_before(reader, made, start, dim)


@primitive("dynamic_slice")
def _dynamic_slice(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    shape, found, starts = reader.shape(), cast(Value, args[0]), args[1:]
    for at, start in enumerate(starts):
        whole = extent(found.axes[at])
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
    """Return the elements of a value at a place, or at places, along an axis, which then has one element."""
    value, dim = single(reader, value, at)
    if along(reader, index) == dim:
        return with_axis(value, at, ())
    return with_axis(taken_at(reader, value, dim, reader.place_along(index, dim), index.has), at, ())


@primitive("dynamic_update_slice")
def _dynamic_update_slice(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    (whole, update), starts = cast(Sequence[Value], args[:2]), args[2:]
    inside: Value | None = None
    for at, start in enumerate(starts):
        size, own = extent(whole.axes[at]), extent(update.axes[at])
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
        made = reader.add(text, "mask", place=reader.place(dim))
        axes = tuple((dim,) if place == at else () for place in range(whole.rank))
        mask = Value(None, axes, frozenset((dim,)), "torch.bool", condition=made)
        inside = mask if inside is None else both(reader, "a & b", inside, mask)
    if inside is None:
        return update
    made = reader.add("f.where(mask, a, b)", "written", mask=reader.mask(inside), a=update, b=whole)
    return Value(made, whole.axes, whole.has | update.has | inside.has, whole.dtype)


def _columns(indices: Any, count: int) -> Sequence[Value]:
    """Return the places along each dimension as values of their own, without the last axis, which JAX needs."""
    found = [*indices] if isinstance(indices, PlaceColumns) else [indices]
    if len(found) != count or any(each.axes[-1] for each in found):
        raise UnreadableError("takes places from a table of them: write each dimension's by itself")
    return [replace(each, axes=each.axes[:-1]) for each in found]


@primitive("gather")
def _gather(
    reader: Reader, args: Sequence[Any], dimension_numbers: Any, slice_sizes: Sequence[Any], **_: object
) -> Value:
    table, numbers = cast(Value, args[0]), dimension_numbers
    columns = _columns(args[1], len(numbers.start_index_map))
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    if any(at not in gone for at in numbers.start_index_map):
        raise UnreadableError("takes parts from places on: a formula takes elements")
    _same_batch(table, columns, numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    batch = _axes(columns)
    for at, index in zip(numbers.start_index_map, columns, strict=True):
        table = picked(reader, table, at, index)
    rest = iter([axis for at, axis in enumerate(table.axes) if at not in gone])
    places = iter(batch)
    rank = len(reader.shape())
    axes = tuple(next(rest) if at in numbers.offset_dims else next(places) for at in range(rank))
    return replace(table, axes=axes)


def _axes(columns: Sequence[Value]) -> Sequence[Axis]:
    """Return the axes to which all places broadcast."""
    return [next((axis for axis in axes if axis), ()) for axes in zip(*(each.axes for each in columns), strict=True)]


def _same_batch(table: Value, columns: Sequence[Value], own: Sequence[int], theirs: Sequence[int]) -> None:
    for at, other in zip(own, theirs, strict=True):
        if any(each.axes[other] and each.axes[other] != table.axes[at] for each in columns):
            raise UnreadableError("takes along one dimension places that have others than the table")


@primitive("scatter-add", "scatter_add")
def _scatter_add(reader: Reader, args: Sequence[Any], dimension_numbers: Any, **_: object) -> Value:
    """Return a table plus, at each place, the sum of all elements that are added there."""
    table, indices, source = args
    numbers = dimension_numbers
    columns = _columns(indices, len(numbers.scatter_dims_to_operand_dims))
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    if any(at not in gone for at in numbers.scatter_dims_to_operand_dims):
        raise UnreadableError("adds parts from places on: a formula adds elements")
    _same_batch(table, columns, numbers.operand_batching_dims, numbers.scatter_indices_batching_dims)
    batch = _axes(columns)
    if not isinstance(source, Value):
        raise UnreadableError("adds a number to places: add an array of it")
    rest = iter([axis for at, axis in enumerate(table.axes) if at not in gone])
    places, window = iter(batch), numbers.update_window_dims
    axes = tuple(next(rest) if at in window else next(places) for at in range(source.rank))
    source = replace(source, axes=axes)
    mask = [*_at_places(reader, table, columns, numbers.scatter_dims_to_operand_dims)]
    kept = {dim for axis in table.axes for dim in axis}
    over = [dim for axis in batch for dim in axis if dim not in kept]
    found = source
    for each in mask:
        made = reader.add("f.where(m, x, 0.0)", "hits", m=reader.mask(each), x=found)
        found = Value(made, (), found.has | each.has, source.dtype)
    terms = replace(found, axes=(tuple(over),))
    sums = reader.reduced("total", "sums", terms, None, False) if over else terms
    sums = replace(sums, axes=table.axes)
    is_empty = table.expression is not None and is_number(table.expression, 0.0)
    return sums if is_empty and kept <= sums.has else reader.each("x + sums", "added", x=table, sums=sums)


@primitive("scatter")
def _scatter(reader: Reader, args: Sequence[Any], dimension_numbers: Any, **_: object) -> Value:
    """Return a table with elements written at constant places. Raises UnreadableError for other places."""
    table, indices, source = args
    numbers = dimension_numbers
    columns = _columns(indices, len(numbers.scatter_dims_to_operand_dims))
    if any(each.has or each.expression is None for each in columns):
        raise UnreadableError("writes to places that may be the same: sums, by .at[...].add, have a formula")
    rest = iter(source.axes if isinstance(source, Value) else ())
    gone = numbers.inserted_window_dims
    mask: Value | None = None
    for at, index in zip(numbers.scatter_dims_to_operand_dims, columns, strict=True):
        table, dim = single(reader, table, at)
        condition = reader.add("a == b", "mask", a=reader.place(dim), b=index.expression)  # type: ignore[arg-type]
        axes = tuple((dim,) if place == at else () for place in range(table.rank))
        own = Value(None, axes, frozenset((dim,)), "torch.bool", condition=condition)
        mask = own if mask is None else both(reader, "a & b", mask, own)
    if not isinstance(source, Value) or mask is None:
        raise UnreadableError("writes a number: write an array of it")
    source = replace(source, axes=tuple(() if at in gone else next(rest) for at in range(table.rank)))
    found: Value = where(reader, mask, source, table)
    return replace(found, axes=table.axes)


def _at_places(reader: Reader, table: Value, columns: Sequence[Value], dims: Sequence[int]) -> Iterator[Value]:
    """Yield conditions that a place of the table is the place in each column."""
    for at, index in zip(dims, columns, strict=True):
        [dim] = table.axes[at] or (None,)
        if dim is None:
            raise UnreadableError("adds to what is no dimension")
        if along(reader, index) == dim:
            continue
        is_there = template("place == index", place=reader.place(dim), index=reader.place_along(index, dim))
        yield Value(None, (), frozenset((dim, *index.has)), "torch.bool", condition=is_there)
