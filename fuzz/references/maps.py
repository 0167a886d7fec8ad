"""Index maps: operations that move elements, as places along dimensions; and one axis expressed by another."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from fuzz.references.dims import ONE, Axis, Dim, Pair, UnreadableError, extent
from fuzz.references.lines import called, number, substituted, template
from fuzz.references.recording import Two
from fuzz.references.scope import Scope, Value
from fuzz.references.sizes import is_less, negated, of
from oracles.formula.node import Node


def taken_at(
    scope: Scope, value: Value, dim: Dim, index: ast.expr, has: Iterable[Dim], outside: float | None = None
) -> Value:
    """Return the elements of a value at these places along one of its dimensions, and `outside` where there is no
    place. `has` are the dimensions of the index. The result keeps the value's axes."""
    if dim not in value.has:
        if outside is None:
            return value
        value = spread(scope, value, dim)
    if outside is None and place_along(scope, value.expression) == dim:
        return replace(value, expression=index, has=frozenset(has))
    if outside is None and (whole := _at_once(scope, value, dim, index)) is not None:
        table, along, at, beyond = whole
        return taken_at(scope, replace(table, axes=value.axes), along, at, has, beyond)
    moved = value.expression if value.places else None  # moving places is not calculating with them
    text = "f.take(x, index, dim)" if outside is None else "f.take(x, index, dim, outside)"
    made = scope.add(text, "taken", x=moved or value, index=index, dim=dim, outside=0.0 if outside is None else outside)
    if isinstance(made, ast.Name):
        scope.taken[made.id] = value, dim, index, frozenset(has), outside
    return replace(value, expression=made, condition=None, has=value.has - {dim} | frozenset(has))


def _at_once(scope: Scope, value: Value, dim: Dim, index: ast.expr) -> tuple[Value, Dim, ast.expr, float | None] | None:
    """Return the value, dimension, places and outside value of an element that was taken by the place along this
    dimension; None for others."""
    place = scope.place(dim)
    known = scope.taken.get(value.expression.id) if isinstance(value.expression, ast.Name) else None
    if known is None or not isinstance(place, ast.Name):
        return None
    table, along, inner, has, outside = known
    line = scope.lines.line(inner)
    inner = inner if line is None or inner == place else line.expression
    names = {node.id for node in ast.walk(inner) if isinstance(node, ast.Name)} - {"f"}
    if has != {dim} or dim in table.has or names != {place.id}:
        return None
    return table, along, substituted(inner, {place.id: index}), outside


def place_along(scope: Scope, expression: ast.expr | None) -> Dim | None:
    """Return the dimension that an expression is the place along; None for others."""
    line = scope.lines.line(expression) if expression is not None else None
    expression = line.expression if line is not None else expression
    if not isinstance(expression, ast.Call) or called(expression) != "position":
        return None
    found: object = getattr(expression.args[0], "value", None)
    return found if isinstance(found, Dim) else None


def spread(scope: Scope, value: Value, dim: Dim) -> Value:
    """Return a value that has a dimension, along which it is the same everywhere."""
    made = scope.add("f.where(place >= 0.0, x, 0.0)", "spread", x=scope.expression(value), place=scope.place(dim))
    return replace(value, expression=made, condition=None, has=value.has | {dim})


def with_axis(value: Value, at: int, axis: Axis) -> Value:
    """Return a value whose axis is called otherwise."""
    axes = [*value.axes]
    axes[at] = axis
    return replace(value, axes=tuple(axes))


def as_axis(scope: Scope, value: Value, at: int, axis: Axis) -> Value:
    """Return a value with other dimensions along one axis, which has as many elements."""
    return _as_axes(scope, value, at, value.axes[at], axis, (axis,))


def as_axes(scope: Scope, value: Value, at: int, axes: Sequence[Axis]) -> Value:
    """Return a value with several axes in the place of one, which has as many elements."""
    return _as_axes(scope, value, at, value.axes[at], tuple(dim for axis in axes for dim in axis), axes)


def _as_axes(scope: Scope, value: Value, at: int, old: Axis, new: Axis, axes: Sequence[Axis]) -> Value:
    if extent(old) != extent(new):
        raise UnreadableError(f"has {_words(old)} where {_words(new)} should be, which is not as long")
    place = at % value.rank
    for other, axis in enumerate(value.axes):  # the axes of a square matrix may have other names
        if other != place and {*new} & {*axis} & value.has:
            value = copied(scope, value, other, {*old, *new})
    found = replace(value, axes=(*value.axes[:place], *axes, *value.axes[place + 1 :]))
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    if not {*old} & value.has:
        return found
    if {*old} & {*new}:
        copies = tuple(scope.sizes.new(of(dim), f"{dim.name}_copy") for dim in old)
        for dim, copy in zip(old, copies, strict=True):
            found = taken_at(scope, found, dim, scope.place(copy), [copy])
        old = copies
    flat = _joined(scope, new)
    for dim, index in zip(old, _parts(scope, flat, old), strict=True):
        found = taken_at(scope, found, dim, index, new)
    return found


def copied(scope: Scope, value: Value, at: int, others: Collection[Dim] = ()) -> Value:
    """Return a value with its own copies of the dimensions along one axis: neither it nor `others` has them."""
    taken = {*others, *(dim for axis in value.axes for dim in axis)}
    return as_axis(scope, value, at, tuple(scope.copy(dim, taken) for dim in value.axes[at]))


def single(scope: Scope, value: Value, at: int) -> tuple[Value, Dim]:
    """Return a value that has one dimension along an axis, and that."""
    axis = value.axes[at]
    if len(axis) > 1:
        others = {dim for place, each in enumerate(value.axes) if place != at for dim in each}
        whole = [cut for cut, sizes in scope.cut if len(cut) == 1 and {*cut}.isdisjoint(others)
                 and extent(cut) == extent(axis)]  # fmt: skip
        hint = "_".join(dim.name for dim in axis)[:24]
        value = as_axis(scope, value, at, whole[0] if whole else scope.sizes.axis(of(*axis), hint))
    elif not axis:
        dim = scope.sizes.new(of(), "one")
        value = spread(scope, with_axis(value, at, (dim,)), dim)
    [dim] = value.axes[at]
    return value, dim


def split(scope: Scope, value: Value, at: int, first: int | Two) -> Value:
    """Return a value with two axes in place of one, the first with that many elements."""
    whole = value.axes[at]
    one, other = (int(first.first), int(first.second)) if isinstance(first, Two) else (first, first)
    sizes = extent(whole)
    if sizes[0] % one or sizes[1] % other:
        raise UnreadableError(f"cuts {_words(whole)} into {one} parts that are not alike")
    return as_axes(scope, value, at, parts(scope, whole, [(one, other), (sizes[0] // one, sizes[1] // other)]))


def parts(scope: Scope, whole: Axis, sizes: Sequence[Pair]) -> Sequence[Axis]:
    """Return axes of these extents, into which an axis is cut: the same ones whenever it is cut so."""
    key = whole, tuple(sizes)
    if key not in scope.cut:
        scope.cut[key] = [_part(scope, whole, at, sizes) for at in range(len(sizes))]
    return scope.cut[key]


def _part(scope: Scope, whole: Axis, at: int, sizes: Sequence[Pair]) -> Axis:
    size, hint = sizes[at], f"{whole[0].name}_part" if whole else "part"
    if size == ONE:
        return ()
    others = [each for place, each in enumerate(sizes) if place != at]
    if all(each == ONE for each in others):
        return whole
    if size[0] == size[1]:
        return (scope.sizes.new(Node("constant", value=float(size[0])), hint),)
    known = [dim for dim in scope.sizes if dim.sizes == size]
    if known:
        return (known[0],)
    if any(one != other for one, other in others):
        raise UnreadableError(
            f"cuts the dimension {_words(whole)!r} into parts: write the parts as dimensions of their own"
        )
    return scope.sizes.axis(of(*whole) / float(math.prod(one for one, _ in others)), hint)


def regrouped(scope: Scope, value: Value, shape: Sequence[Pair]) -> Value:
    """Return a view: the same elements, in the same order, in other axes."""
    rest, sizes = [dim for axis in value.axes for dim in axis], [*shape]
    blocks = list[tuple[Axis, list[Pair]]]()
    while sizes:
        block, own = list[Dim](), [sizes.pop(0)]
        while (have := extent(block)) != (want := _product(own)):
            if rest and have <= want:
                block.append(rest.pop(0))
            elif sizes:
                own.append(sizes.pop(0))
            else:
                raise UnreadableError("is a view of another number of elements")
        blocks.append((tuple(block), own))
    value = replace(value, axes=tuple(axis for axis, _ in blocks))
    for at in reversed(range(len(blocks))):
        axis, own = blocks[at]
        value = as_axes(scope, value, at, _grouped(axis, own) or parts(scope, axis, own))
    return value


def _product(sizes: Sequence[Pair]) -> Pair:
    return math.prod(one for one, _ in sizes), math.prod(other for _, other in sizes)


def _grouped(axis: Axis, sizes: Sequence[Pair]) -> Sequence[Axis] | None:
    """Return the dimensions of an axis in groups, one for each size; None if one would have to be cut."""
    rest, found = [*axis], list[Axis]()
    for size in sizes:
        own = list[Dim]()
        while extent(own) != size:
            if not rest:
                return None
            own.append(rest.pop(0))
        found.append(tuple(own))
    return found


def _joined(scope: Scope, axis: Axis) -> ast.expr:
    """Return the place along an axis, from the places along its dimensions."""
    found = scope.place(axis[0]) if axis else number(0.0)
    for dim in axis[1:]:
        found = template("a * f.extent(n) + b", a=found, n=dim, b=scope.place(dim))
    return scope.lines.add(found, "place") if len(axis) > 1 else found


def _parts(scope: Scope, flat: ast.expr, axis: Axis) -> Sequence[ast.expr]:
    """Return the places along the dimensions of an axis, from that along it."""
    found, above = list[ast.expr](), None
    for at, dim in enumerate(axis):
        after = axis[at + 1 :]
        whole = flat
        if after:
            whole = scope.add("f.floor(a / f.extent(n))", f"at_{dim.name}", a=flat, n=after)
        found.append(whole if above is None else template("a - f.extent(n) * b", a=whole, n=dim, b=above))
        above = whole
    return found


def _words(axis: Axis) -> str:
    return " ".join(dim.name for dim in axis) or "one element"


def by_steps(index: ast.expr, step: int) -> ast.expr:
    """Return a place among every `step`-th ones: a fraction, where no element is, for those between them."""
    return index if step == 1 else template("a / step", a=index, step=float(step))


def linear(scope: Scope, terms: Mapping[Dim, float], more: float | Node = 0.0) -> ast.expr:
    """Return a sum of places times numbers, and a number or a count."""
    found: ast.expr | None = None
    for dim, factor in terms.items():
        text = "place" if factor == 1 else "factor * place"
        each = template(text, place=scope.place(dim), factor=abs(factor))
        if found is None:
            found = each if factor > 0 else ast.UnaryOp(ast.USub(), each)
        else:
            found = template("a + b" if factor > 0 else "a - b", a=found, b=each)
    count = more if isinstance(more, Node) else Node("constant", value=more)
    if found is None:
        return scope.sizes.expression(count)
    if count.kind == "constant" and not count.value:
        return found
    less = count.value < 0 if count.kind == "constant" else is_less(count)
    return template("a - b" if less else "a + b", a=found, b=scope.sizes.expression(negated(count) if less else count))
