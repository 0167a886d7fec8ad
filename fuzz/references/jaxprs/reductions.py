"""JAX's reductions, cumulated sums, sorting, contractions, convolutions and windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Axis, Dim, UnreadableError, extent
from fuzz.references.jaxprs.elementwise import along, primitive
from fuzz.references.maps import as_axis, copied, single, split
from fuzz.references.moves import taken
from fuzz.references.pieces import cumulated, flipped, greatest_so_far, multiplied, multiplied_up_to
from fuzz.references.reading import Reader
from fuzz.references.reductions import least, most, some_or_all, total
from fuzz.references.scope import Rule, Value
from fuzz.references.selection import first_ranks, is_sorted, place_of
from fuzz.references.windows import Window, apart, each_of, over_windows, slid
from oracles.formula.node import Node

_CUMULATED: Mapping[str, Rule] = {
    "cumsum": cumulated, "cumprod": multiplied_up_to,
    **dict.fromkeys(("cummax", "cummin"), lambda *given: greatest_so_far(*given)[0]),
}  # fmt: skip
_REDUCED = {
    "sum": total, "max": most, "min": least, "prod": multiplied, "or": some_or_all, "and": some_or_all,
}  # fmt: skip


@primitive(*(f"reduce_{name}" for name in _REDUCED))
def _reduced(reader: Reader, args: Sequence[Any], axes: Sequence[int], **_: object) -> Value:
    """Return an operand reduced along axes; the operand itself if there are none."""
    made = _REDUCED[reader.step.op.rpartition("_")[2]]
    return made(reader, args[0], axes) if axes else args[0]


@primitive("cumsum", "cumprod", "cummax", "cummin")
def _cumulated(reader: Reader, args: Sequence[Any], axis: int, reverse: bool) -> Value:
    value = flipped(reader, args[0], [axis]) if reverse else args[0]
    found: Value = _CUMULATED[reader.step.op.partition(".")[2]](reader, value, axis)
    return flipped(reader, found, [axis]) if reverse else found


@primitive("argmax", "argmin")
def _argmax(reader: Reader, args: Sequence[Any], axes: Sequence[int], **_: object) -> Value:
    return place_of(reader, args[0], axes[0], reader.step.op.partition(".")[2], keep=False)


@primitive("top_k")
def _top_k(reader: Reader, args: Sequence[Any], k: Any, axis: int = -1, **_: object) -> Any:
    values, places = first_ranks(reader, args[0], k, axis, ties="first")
    return values, replace(places, dtype="torch.int32")


@primitive("sort")
def _sort(reader: Reader, args: Sequence[Any], dimension: int, is_stable: bool, num_keys: int) -> Any:
    """Return the first operand sorted, and the others moved along with its elements, such as their places."""
    if num_keys != 1:
        raise UnreadableError("sorts by several keys")
    y, places = is_sorted(reader, args[0], dimension, stable=is_stable)
    found = [y]
    for each in args[1:]:
        dim = along(reader, each)
        if dim is not None and each.axes[dimension] == (dim,):
            found.append(replace(places, dtype=each.dtype))
            continue
        own = taken(reader, each, dimension, places, "taken")
        found.append(replace(own, axes=y.axes))
    return found if len(found) > 1 else y


@primitive("dot_general")
def _dot_general(reader: Reader, args: Sequence[Any], dimension_numbers: Any, **_: object) -> Value:
    (over_a, over_b), (batch_a, batch_b) = dimension_numbers
    a, b = args
    free_a = [at for at in range(a.rank) if at not in (*over_a, *batch_a)]
    free_b = [at for at in range(b.rank) if at not in (*over_b, *batch_b)]
    mine = {dim for axis in a.axes for dim in axis}
    for at in free_b:  # such as a column for each row
        b = copied(reader, b, at, mine) if mine & {*b.axes[at]} else b
    for own, theirs in zip((*over_a, *batch_a), (*over_b, *batch_b), strict=True):
        if extent(a.axes[own]) != extent(b.axes[theirs]):
            raise UnreadableError("multiplies along two dimensions: give them one name in `shapes`")
        others = {dim for at, axis in enumerate(a.axes) if at != own for dim in axis}
        if len(b.axes[theirs]) > len(a.axes[own]) and others.isdisjoint(b.axes[theirs]):
            a = as_axis(reader, a, own, b.axes[theirs])
        b = as_axis(reader, b, theirs, a.axes[own])
    batch, inner = [a.axes[at] for at in batch_a], [a.axes[at] for at in over_a]
    rows, columns = [a.axes[at] for at in free_a], [b.axes[at] for at in free_b]
    wide = replace(a, axes=(*batch, *rows, *[()] * len(columns), *inner))
    other = replace(b, axes=(*batch, *[()] * len(rows), *columns, *inner))
    axes = (*batch, *rows, *columns)
    if not inner:
        return replace(reader.each("a * b", "product", a=wide, b=other), axes=axes)
    found = reader.reduced("dot", "product", wide, range(len(axes), wide.rank), False, other)
    return replace(found, axes=axes)


@primitive("conv_general_dilated")
def _convolution(
    reader: Reader, args: Sequence[Any], dimension_numbers: Any, window_strides: Sequence[Any], padding: Sequence[Any],
    lhs_dilation: Sequence[Any], rhs_dilation: Sequence[Any], feature_group_count: Any, batch_group_count: Any,
    **_: object,
) -> Value:  # fmt: skip
    if batch_group_count != 1:
        raise UnreadableError("convolves groups of a batch, as gradients of grouped convolutions do: it has no formula")
    value, weight = (
        replace(each, axes=tuple(each.axes[at] for at in spec))
        for each, spec in zip(args, (dimension_numbers.lhs_spec, dimension_numbers.rhs_spec), strict=True)
    )
    value, weight = split(reader, value, 1, feature_group_count), split(reader, weight, 0, feature_group_count)
    windows = list[Axis]()
    for at in range(3, weight.rank):
        weight, window = apart(reader, weight, at, value)
        windows.append(window)
    own = {dim for axis in value.axes for dim in axis}
    weight = copied(reader, weight, 1, own) if own & {*weight.axes[1]} else weight
    value = as_axis(reader, as_axis(reader, value, 1, weight.axes[0]), 2, weight.axes[2])
    numbers = zip(windows, window_strides, padding, lhs_dilation, rhs_dilation, strict=True)
    for at, (window, step, pads, apart_by, dilation) in enumerate(numbers, 3):
        value = slid(reader, value, at, window, _window(reader, step, pads, apart_by, dilation))
    axes = (value.axes[0], (*weight.axes[0], *weight.axes[1]), *value.axes[3:])
    terms = replace(value, axes=(weight.axes[2], *windows))
    found = replace(reader.reduced("dot", "conv", terms, None, False, weight), axes=axes)
    order = sorted(range(found.rank), key=lambda at: dimension_numbers.out_spec[at])
    return replace(found, axes=tuple(found.axes[at] for at in order))


def _window(reader: Reader, step: Any, pads: Any, apart_by: Any, dilation: Any) -> Window:
    """Return the arrangement of windows along an axis whose elements may lie `apart_by` places apart."""
    each_of([step, apart_by, dilation], 3)
    before, after = map(reader.amount, pads)
    return Window(step, before, dilation, after, apart_by)


@primitive("reduce_window_sum", "reduce_window_max")
def _windows(
    reader: Reader, args: Sequence[Value], window_dimensions: Sequence[Any], window_strides: Sequence[Any],
    padding: Sequence[Any], base_dilation: Sequence[Any], window_dilation: Sequence[Any], **_: object,
) -> Value:  # fmt: skip
    is_sum = reader.step.op == "lax.reduce_window_sum"
    value, windows = args[0], list[Dim]()
    numbers = zip(window_dimensions, window_strides, padding, base_dilation, window_dilation, strict=True)
    for at, (size, step, pads, apart_by, dilation) in enumerate(numbers):
        if not isinstance(size, int):
            raise UnreadableError("has windows that follow from extents: formulas have such of fixed steps alone")
        if (size, step, tuple(pads), apart_by) == (1, 1, (0, 0), 1):
            continue
        value, dim = single(reader, value, at)
        window = reader.sizes.new(Node("constant", value=float(size)), f"{dim.name}_window")
        how = _window(reader, step, pads, apart_by, dilation)
        value = slid(reader, value, at, (window,), how, 0.0 if is_sum else -math.inf)
        windows.append(window)
    return over_windows(reader, value, "total" if is_sum else "greatest", windows)
