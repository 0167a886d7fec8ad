"""Linear recurrences: a loop whose iterations multiply a state by a factor and add a term becomes a scan."""

from __future__ import annotations

import ast
import math
from dataclasses import replace

from fuzz.references.dims import Dim, UnreadableError
from fuzz.references.elementwise import rule
from fuzz.references.lines import Lines, called, is_number, number, of_dims, template
from fuzz.references.maps import spread, taken_at
from fuzz.references.reading import Reader
from fuzz.references.scope import Value
from fuzz.references.sizes import of

_MARK = "before "
"""The start of the name of a previous state while its next value is being read: no valid name in Python."""


@rule("each")
def _each(reader: Reader, self: Value, dim: int) -> Value:
    """Return the element at the place of the present iteration: it has the loop's dimension, but no axis for it."""
    axis = self.axes[dim]
    if len(axis) != 1:
        raise UnreadableError("goes through an axis that is no dimension")
    if reader.iterations not in (None, axis[0]):
        raise UnreadableError("goes through two dimensions at once: give them one name in `shapes`")
    reader.iterations = axis[0]
    return replace(self, axes=(*self.axes[:dim], *self.axes[dim + 1 :]))


def _iterations(reader: Reader) -> Dim:
    assert reader.iterations is not None
    return reader.iterations


@rule("count")
def _count(reader: Reader, more: float) -> Value:
    along = _iterations(reader)
    made = reader.add("place + more" if more else "place", "count", place=reader.place(along), more=more)
    return Value(made, (), frozenset((along,)), "torch.int64")


@rule("carried")
def _carried(reader: Reader, start: Value) -> Value:
    axes = tuple(map(reader.dim, reader.shape()))
    name = ast.Name(f"{_MARK}{len(reader.starts)}")
    reader.starts[name.id] = start
    has = {dim for axis in axes for dim in axis}
    return Value(name, axes, frozenset({*has, _iterations(reader)}), reader.step.dtype)


@rule("recurrence")
def _recurrence(reader: Reader, carried: Value, value: Value) -> Value:
    assert isinstance(carried.expression, ast.Name)
    name, along = carried.expression.id, _iterations(reader)
    start = reader.starts[name]
    if along in start.has:
        raise UnreadableError("begins with what follows from its places")
    expression = reader.expression(value)
    if (extreme := _extreme(reader, expression, name)) is not None:
        return _extreme_so_far(reader, value, *extreme, start)
    factor, more = _Linear(reader.lines, name).parts(expression)
    if is_number(factor, 0.0):  # no dependence on the previous state
        return value
    parts = {"a": factor, "b": more, "dim": of_dims([along]), "start": reader.expression(start)}
    text = "f.scan(a, b, dim)" if is_number(parts["start"], 0.0) else "f.scan(a, b, dim, start)"
    made = reader.add(text, "carried", **parts)
    return replace(value, expression=made, has=value.has | start.has | {along})


@rule("before")
def _before(reader: Reader, made: Value, start: Value) -> Value:
    return made_before(reader, made, start, _iterations(reader))


def made_before(reader: Reader, made: Value, start: Value, dim: Dim) -> Value:
    """Return the state before each iteration: the previous iteration's result, or first the initial value."""
    index = template("place - 1.0", place=reader.place(dim))
    shifted = taken_at(reader, made, dim, index, (dim,), 0.0)
    if start.expression is not None and is_number(start.expression, 0.0):
        return shifted
    expression = reader.add("f.where(place < 1.0, a, b)", "before", place=reader.place(dim), a=start, b=shifted)
    return Value(expression, made.axes, shifted.has | start.has | {dim}, made.dtype)


def _extreme(reader: Reader, expression: ast.expr, name: str) -> tuple[ast.expr, bool] | None:
    """Return the other operand of a maximum or minimum with the previous state, `f.where(a < b, b, a)`, and whether it
    is a maximum; None for others."""
    line = reader.lines.line(expression)
    chosen = line.expression if line is not None else expression
    if not isinstance(chosen, ast.Call) or called(chosen) != "where" or not isinstance(chosen.args[0], ast.Compare):
        return None
    mask, one, other = chosen.args
    assert isinstance(mask, ast.Compare)
    sides = [ast.dump(mask.left), ast.dump(mask.comparators[0])]
    if not isinstance(mask.ops[0], ast.Lt) or {ast.dump(one), ast.dump(other)} != {*sides}:
        return None
    own = [isinstance(each, ast.Name) and each.id == name for each in (one, other)]
    if sum(own) != 1:
        return None
    more = other if own[0] else one
    return None if _Linear(reader.lines, name).depends(more) else (more, ast.dump(one) == sides[1])


def _extreme_so_far(reader: Reader, value: Value, more: ast.expr, is_larger: bool, start: Value) -> Value:
    """Return, at each place, the largest or smallest value so far, starting from the loop's initial value."""
    along, least = _iterations(reader), number(-math.inf)
    each = replace(value, expression=more if is_larger else template("-x", x=more), has=value.has | {along})
    each = each if isinstance(more, ast.Name) else spread(reader, each, along)
    up_to = reader.sizes.new(of(along), f"{along.name}_up_to")
    copy = taken_at(reader, each, along, reader.place(up_to), (up_to,))
    j, i = reader.place(up_to), reader.place(along)
    made = reader.add("f.where(j <= i, x, least)", "so_far", j=j, i=i, x=copy, least=least)
    made = reader.add("f.greatest(x, dim)", "most", x=made, dim=up_to)
    made = made if is_larger else reader.add("-x", "least", x=made)
    begin = reader.expression(start)
    if ast.dump(begin) != ast.dump(number(-math.inf if is_larger else math.inf)):
        text = "f.where(a < b, b, a)" if is_larger else "f.where(b < a, b, a)"
        made = reader.add(text, "most" if is_larger else "least", a=made, b=begin)
    return replace(value, expression=made, condition=None, has=value.has | start.has | {along})


class _Linear:
    """An expression as a factor times the previous state plus a term."""

    def __init__(self, lines: Lines, name: str) -> None:
        self._lines, self._name = lines, name

    def parts(self, expression: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return the factor and the term of an expression."""
        if not self.depends(expression):
            return number(0.0), expression
        if isinstance(expression, ast.Name):
            if expression.id == self._name:
                return number(1.0), number(0.0)
            (a, b), line = self.parts(self._lines.found[expression.id].expression), self._lines.found[expression.id]
            return self._lines.add(a, f"{line.hint}_factor"), self._lines.add(b, f"{line.hint}_more")
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
            a, b = self.parts(expression.operand)
            return template("-a", a=a), template("-a", a=b)
        if isinstance(expression, ast.BinOp):
            return self._of_two(expression)
        raise UnreadableError(
            "makes more of what the iteration before made than a factor times it, plus something: that has no formula"
        )

    def _of_two(self, expression: ast.BinOp) -> tuple[ast.expr, ast.expr]:
        left, right = expression.left, expression.right
        own = self.depends(left), self.depends(right)
        (a, b), (c, d) = self.parts(left), self.parts(right)
        if isinstance(expression.op, (ast.Add, ast.Sub)):
            sign = "+" if isinstance(expression.op, ast.Add) else "-"
            return _joined(a, c, sign), _joined(b, d, sign)
        if isinstance(expression.op, ast.Mult) and own != (True, True):
            a, b, other = (a, b, right) if own[0] else (c, d, left)
            return _times(a, other), _times(b, other)
        if isinstance(expression.op, ast.Div) and own == (True, False):
            return template("a / b", a=a, b=right), template("a / b", a=b, b=right)
        raise UnreadableError(
            "multiplies what the iteration before made by itself, or divides by it: that has no formula"
        )

    def depends(self, expression: ast.expr) -> bool:
        """Whether an expression depends on the previous state."""
        names = {each.id for each in ast.walk(expression) if isinstance(each, ast.Name)}
        if self._name in names:
            return True
        return any(self.depends(self._lines.found[each].expression) for each in names if each in self._lines.found)


def _joined(a: ast.expr, b: ast.expr, sign: str) -> ast.expr:
    if is_number(b, 0.0):
        return a
    if is_number(a, 0.0):
        return b if sign == "+" else template("-a", a=b)
    return template(f"a {sign} b", a=a, b=b)


def _times(a: ast.expr, other: ast.expr) -> ast.expr:
    return a if is_number(a, 0.0) else template("a * b", a=a, b=other)


@rule("stacked")
def _stacked(reader: Reader, self: Value, dim: int) -> Value:
    axes = [*self.axes]
    axes.insert(dim % (self.rank + 1), (_iterations(reader),))
    return replace(self, axes=tuple(axes))


@rule("joined")
def _joined_along(reader: Reader, self: Value, dim: int) -> Value:
    axes = [*self.axes]
    if axes[dim]:
        raise UnreadableError("puts what iterations made of several elements beside each other")
    axes[dim] = (_iterations(reader),)
    return replace(self, axes=tuple(axes))


@rule("last")
def _last(reader: Reader, self: Value) -> Value:
    along = _iterations(reader)
    place = template("f.extent(dim) - 1.0", dim=along)
    return taken_at(reader, self, along, place, ())
