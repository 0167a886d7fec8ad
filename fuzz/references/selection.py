"""Torch's selections by order: places of maxima, the largest elements, sorted rows."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Dim, UnreadableError, extent
from fuzz.references.elementwise import rule
from fuzz.references.lines import called, of_dims
from fuzz.references.maps import regrouped, single, spread, with_axis
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.reductions import least, most
from fuzz.references.scope import Value
from fuzz.references.sizes import of
from oracles.formula.node import Node

_PLACES = "torch.int64"


@rule("argmax", "argmin")
def _argmax(reader: Reader, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        rank, count = self.rank, extent(dim for axis in self.axes for dim in axis)
        found = place_of(reader, regrouped(reader, self, [count]), 0, reader.step.op, keep=False)
        return replace(found, axes=((),) * rank) if keepdim else found
    return place_of(reader, self, reader.axis(self, dim) if self.rank else 0, reader.step.op, keepdim)


@rule("max", "min")
def _max(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False, **_: object) -> Any:
    found = (most if reader.step.op == "max" else least)(reader, self, dim, keepdim)
    if dim is None or not self.rank:
        return found
    return found, place_of(reader, self, reader.axis(self, dim), f"arg{reader.step.op}", keepdim)


def place_of(reader: Reader, value: Value, at: int, how: str, keep: bool) -> Value:
    """Return the first place of the maximum or minimum along an axis, as torch, NumPy and JAX document."""
    if not value.rank or not value.axes[at]:
        axes = tuple(axis for place, axis in enumerate(value.axes) if keep or place != at)
        return Value(reader.number(0.0), axes, dtype=_PLACES)
    value, dim = _along(reader, value, at)
    made = reader.add(f'f.{how}(x, dim, "first")', "place", x=value, dim=dim)
    axes = tuple(() if place == at else axis for place, axis in enumerate(value.axes) if keep or place != at)
    return Value(made, axes, value.has - {dim}, _PLACES)


def _along(reader: Reader, value: Value, at: int) -> tuple[Value, Dim]:
    """Return a value that has one dimension along an axis, and that dimension."""
    value, dim = single(reader, value, at)
    return (value if dim in value.has else spread(reader, value, dim)), dim


@rule("topk")
def _topk(
    reader: Reader,
    self: Value,
    k: int | Two,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> tuple[Value, Value]:
    if not sorted:
        raise UnreadableError("returns the largest elements in any order: write sorted=True")
    return first_ranks(reader, self, k, dim, largest=largest)


def first_ranks(
    reader: Reader, self: Value, k: int | Two, dim: int, *, largest: bool = True, ties: str = "either"
) -> tuple[Value, Value]:  # fmt: skip
    """Return the k largest or smallest elements along an axis in order, and their places. Torch does not document which
    of equal elements comes first: `ties` is "either"."""
    at = reader.axis(self, dim)
    value, along = _along(reader, self, at)
    count = _count(reader, k)
    ranks = reader.sizes.new(count, "k")
    parts = {"x": reader.expression(value), "dim": of_dims([along]), "into": of_dims([ranks])}
    words, more = str(k), ("" if ties == "either" else f", {ties!r}") + ("" if largest else ", largest=False")
    if isinstance(k, Two):
        words, parts["count"] = "count", reader.sizes.expression(count)
    has = value.has - {along} | {ranks}
    values, places = (reader.add(f"f.topk(x, {words}, dim, into{more})[{item}]", hint, **parts)
                      for item, hint in enumerate(("largest", "places")))  # fmt: skip
    ranked = with_axis(value, at, (ranks,))
    return (
        replace(ranked, expression=values, condition=None, has=has, dtype=reader.step.dtype),
        replace(ranked, expression=places, condition=None, has=has, dtype=_PLACES),
    )


def _count(reader: Reader, k: int | Two) -> Node:
    if not isinstance(k, Two):
        return Node("constant", value=float(k))
    pair = int(k.first), int(k.second)
    known = next((each for each in reader.sizes if each.sizes == pair), None)
    if known is None:
        raise UnreadableError(f"takes {pair[0]} elements here and {pair[1]} with other extents, which is none of them")
    return of(known)


@rule("sort", "argsort")
def _sort(reader: Reader, self: Value, dim: int = -1, descending: bool = False, stable: Any = None, **_: object) -> Any:
    y, places = is_sorted(reader, self, dim, stable=bool(stable), descending=descending)
    return places if reader.step.op == "argsort" else (y, places)


def is_sorted(
    reader: Reader, value: Value, dim: int, *, stable: bool, descending: bool = False
) -> tuple[Value, Value]:  # fmt: skip
    """Return a value sorted along an axis, and the place of each element before sorting."""
    if not value.rank or not value.axes[reader.axis(value, dim)]:
        return value, Value(reader.number(0.0), value.axes, dtype=_PLACES)
    value, along = _along(reader, value, reader.axis(value, dim))
    parts = {"x": reader.expression(value), "dim": of_dims([along])}
    ties, more = (', "first"' if stable else ""), (", descending=True" if descending else "")
    y, order = (
        reader.add(f"f.sort(x, dim{ties}{more})[{item}]", hint, **parts)
        for item, hint in enumerate(("sorted", "places"))
    )
    places = replace(value, expression=order, condition=None, dtype=_PLACES)
    return replace(value, expression=y, condition=None, dtype=reader.step.dtype), places


def ranks_in(reader: Reader, order: Value, at: int) -> Value | None:
    """Return, for each place along an axis, its rank in an order that sorting made; None for other places."""
    line = reader.lines.line(order.expression) if order.expression is not None else None
    made = line.expression if line is not None else None
    if not (isinstance(made, ast.Subscript) and isinstance(made.value, ast.Call) and called(made.value) == "sort"):
        return None
    if ast.dump(made.value.args[1]) != ast.dump(of_dims([*order.axes[at]])):
        return None
    return replace(order, expression=reader.add("f.argsort(x, dim)", "ranks", x=order, dim=made.value.args[1]))


def kept(reader: Reader, value: Value, at: int) -> Value | None:
    """Return the place of a maximum or minimum with a new dimension along an axis of one element; None for other
    values."""
    line = reader.lines.line(value.expression) if value.expression is not None else None
    if line is None or value.axes[at] or (how := called(line.expression)) not in ("argmax", "argmin"):
        return None
    assert isinstance(line.expression, ast.Call)
    one = reader.sizes.new(of(), "one")
    parts = dict(zip(("x", "dim", "ties"), line.expression.args, strict=True)) | {"into": of_dims([one])}
    more = "" if how == "argmax" else ", largest=False"
    made = reader.add(f"f.topk(x, 1, dim, into, ties{more})[1]", "place", **parts)
    return with_axis(replace(value, expression=made, has=value.has | {one}), at, (one,))
