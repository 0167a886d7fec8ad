"""Operations that move or make elements: views, which are no operations of a formula, places, gathers and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Axis, Pair, UnreadableError
from fuzz.references.elementwise import rule, where
from fuzz.references.maps import as_axis, copied, regrouped
from fuzz.references.reading import Reader
from fuzz.references.scope import Number, Value

_IGNORED = -100
"""The label that torch ignores by default."""


@rule("view", "view_copy", "_unsafe_view", "reshape", "flatten", "unflatten")
def _view(reader: Reader, self: Value, **_: object) -> Value:
    return regrouped(reader, self, reader.shape())


@rule("permute", "permute_copy")
def _permute(reader: Reader, self: Value, dims: Sequence[int]) -> Value:
    return replace(self, axes=tuple(self.axes[at] for at in dims))


@rule("t", "t_copy", "transpose", "transpose_copy", "swapaxes")
def _transpose(reader: Reader, self: Value, dim0: int = 0, dim1: int = 1) -> Value:
    axes = [*self.axes]
    if self.rank > 1:
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return replace(self, axes=tuple(axes))


@rule("unsqueeze", "unsqueeze_copy")
def _unsqueeze(reader: Reader, self: Value, dim: int) -> Value:
    at = dim % (self.rank + 1)
    return replace(self, axes=(*self.axes[:at], (), *self.axes[at:]))


@rule("squeeze", "squeeze_copy")
def _squeeze(reader: Reader, self: Value, dim: Any = None) -> Value:
    places = reader.axes(self, dim)
    return replace(self, axes=tuple(axis for at, axis in enumerate(self.axes) if at not in places or axis))


@rule("expand", "expand_copy")
def _expand(reader: Reader, self: Value, **_: object) -> Value:
    return replace(self, axes=new_axes(reader, reader.shape(), [()] * (len(reader.shape()) - self.rank) + [*self.axes]))


def new_axes(reader: Reader, shape: Sequence[Pair], own: Sequence[Axis] = ()) -> tuple[Axis, ...]:
    """Return axes of these extents: those of an argument, and new ones. A second axis of one extent has a dimension of
    its own."""
    found = list[Axis]()
    there = {dim for axis in own for dim in axis}
    for axis, pair in zip(own or [()] * len(shape), shape, strict=True):
        made = axis or reader.dim(pair)
        if not axis and there & {*made}:
            made = tuple(reader.copy(dim, there) for dim in made)
        found.append(made)
        there |= {*made}
    return tuple(found)


@rule("arange")
def _arange(reader: Reader, start: Number = 0, step: Number = 1, **_: object) -> Value:
    [axis] = [reader.dim(pair) for pair in reader.shape()]
    if not axis:
        return Value(reader.number(start), (axis,), dtype=reader.step.dtype)
    text = "step * place + start" if start else "step * place"
    made = reader.add(text, "place", place=reader.place(*axis), step=step, start=start)
    return Value(made, (axis,), frozenset(axis), reader.step.dtype)


@rule("empty", "empty_like", "new_empty")
def _empty(reader: Reader, **_: object) -> Value:
    """Return whatever is in memory: if a result depends on it, the guard finds NaN."""
    return Value(reader.number(math.nan), new_axes(reader, reader.shape()), frozenset(), reader.step.dtype)


@rule("full", "full_like", "new_full", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "fill")
@rule("scalar_tensor")
def _full(reader: Reader, fill_value: Any = None, s: Any = None, value: Any = None, **_: object) -> Value:
    known = 1.0 if "ones" in reader.step.op else 0.0 if "zeros" in reader.step.op else None
    filled = next((each for each in (fill_value, s, value) if each is not None), known)
    if isinstance(filled, Value):
        return replace(filled, axes=new_axes(reader, reader.shape()), dtype=reader.step.dtype)
    assert filled is not None
    return Value(reader.number(filled), new_axes(reader, reader.shape()), frozenset(), reader.step.dtype)


@rule("gather")
def _gather(reader: Reader, self: Value, dim: int, index: Value, **_: object) -> Value:
    at = reader.axis(self, dim)
    own = tuple(axis for place, axis in enumerate(self.axes) if place != at)
    others = tuple(axis for place, axis in enumerate(index.axes) if place != at)
    if any(axis and axis != mine for axis, mine in zip(others, own, strict=True)):
        raise UnreadableError("gathers along one dimension places that have others than the table")
    found = taken(reader, self, at, index, "taken")
    return replace(found, axes=index.axes)


@rule("index_select")
def _index_select(reader: Reader, self: Value, dim: int, index: Value) -> Value:
    at = reader.axis(self, dim)
    found = taken(reader, self, at, index, "taken")
    return replace(found, axes=(*self.axes[:at], *index.axes, *self.axes[at + 1 :]))


@rule("embedding")
def _embedding(reader: Reader, weight: Value, indices: Value, **_: object) -> Value:
    return replace(taken(reader, weight, 0, indices, "rows"), axes=(*indices.axes, *weight.axes[1:]))


@rule("index")
def _index(reader: Reader, self: Value, indices: Sequence[Value | None]) -> Value:
    there = [(at, each) for at, each in enumerate(indices) if each is not None]
    if any(each.dtype == "torch.bool" for _, each in there):
        raise UnreadableError("picks by a mask: values decide how many elements there are")
    if len(there) != 1:
        raise UnreadableError("picks by several indices at once: formulas take along one dimension")
    [(at, index)] = there
    own = {dim for axis in (*self.axes[:at], *self.axes[at + 1 :]) for dim in axis}
    for place, axis in enumerate(index.axes):
        index = copied(reader, index, place, own) if own & {*axis} else index
    return replace(taken(reader, self, at, index, "taken"), axes=(*self.axes[:at], *index.axes, *self.axes[at + 1 :]))


@rule("nll_loss_forward", "nll_loss")
def _nll_loss(reader: Reader, self: Value, target: Value, weight: Any, reduction: int, ignore_index: int) -> Any:
    if weight is not None:
        raise UnreadableError("weighs classes: write it out")
    for at, axis in enumerate(self.axes[:-1]):  # the rows of the transpose are places of another dimension
        target = as_axis(reader, target, at, axis)
    counts = counting(reader, target, ignore_index)
    own = taken(reader, self, self.rank - 1, target, "taken", outside=None if counts is None else 0.0)
    own = replace(own, axes=self.axes[:-1])
    loss = reader.line("-x", "loss", own, x=own)
    if counts is not None:
        loss = where(reader, counts, loss, 0.0)
    if reduction == 1 and counts is not None:
        sums = [reader.reduced("total", "sums", each, None, False) for each in (loss, counts)]
        return reader.each("a / b", "loss", a=sums[0], b=sums[1]), sums[1]
    if reduction:
        loss = reader.reduced("avg" if reduction == 1 else "total", "loss", loss, None, False)
    return loss, Value(reader.number(0.0))  # their number follows from extents


def counting(reader: Reader, target: Value, ignored: int) -> Value | None:
    """Return which places count; None if all do. The number that torch ignores by default is drawn only if the
    reference names that argument: few kernels know it."""
    if not target.places:
        return None
    if ignored == _IGNORED and not any("ignore_index" in each.keywords for each in reader.step.at):
        reader.unnamed.setdefault(target.places, ignored)
    elif ignored < 0:
        reader.apart.setdefault(target.places, ignored)
    if ignored < 0 and ignored != reader.missing.get(target.places):
        return None
    return reader.compared("a != b", a=target, b=float(ignored))


def taken(
    reader: Reader, table: Value, at: int, index: Value, hint: str, *, outside: float | None = None
) -> Value:  # fmt: skip
    """Return the elements of a table along an axis of one dimension, at places with other dimensions."""
    if len(table.axes[at]) != 1:
        raise UnreadableError("takes along what is no dimension")
    [dim] = table.axes[at]
    place = reader.place_along(index, dim)
    if dim not in table.has:
        return table
    text = "f.take(x, index, dim)" if outside is None else "f.take(x, index, dim, outside)"
    made = reader.add(text, hint, x=table, index=place, dim=dim, outside=0.0 if outside is None else outside)
    return Value(made, table.axes, table.has - {dim} | index.has, table.dtype)
