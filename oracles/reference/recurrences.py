"""Linear recurrences: what one turn of a loop makes of what the turn before made, of which the loop makes a scan."""

from __future__ import annotations

import ast
from dataclasses import replace

from oracles.reference.dims import Dim, UnreadableError
from oracles.reference.elementwise import rule
from oracles.reference.lines import Lines, is_number, number, of_dims, template
from oracles.reference.maps import taken_at
from oracles.reference.reading import Reader, Value

_MARK = "before "
"""How what the turn before made is called until it is known what follows from it: no name of Python."""


@rule("each")
def _each(reader: Reader, self: Value, dim: int) -> Value:
    """What is taken of each place has its dimension, and no axis of it."""
    axis = self.axes[dim]
    if len(axis) != 1:
        raise UnreadableError("goes through an axis that is no dimension")
    if reader.turns not in (None, axis[0]):
        raise UnreadableError("goes through two dimensions at once: give them one name in `shapes`")
    reader.turns = axis[0]
    return replace(self, axes=(*self.axes[:dim], *self.axes[dim + 1 :]))


def _turns(reader: Reader) -> Dim:
    assert reader.turns is not None
    return reader.turns


@rule("carried")
def _carried(reader: Reader, start: Value) -> Value:
    axes = tuple(map(reader.dim, reader.shape()))
    name = ast.Name(f"{_MARK}{len(reader.starts)}")
    reader.starts[name.id] = start
    has = {dim for axis in axes for dim in axis}
    return Value(name, axes, frozenset({*has, _turns(reader)}), reader.step.dtype)


@rule("recurrence")
def _recurrence(reader: Reader, carried: Value, value: Value) -> Value:
    assert isinstance(carried.expression, ast.Name)
    name, along = carried.expression.id, _turns(reader)
    start = reader.starts[name]
    if along in start.has:
        raise UnreadableError("begins with what follows from its places")
    factor, more = _Linear(reader.lines, name).parts(reader.expression(value))
    parts = {"a": factor, "b": more, "dim": of_dims([along]), "start": reader.expression(start)}
    text = "f.scan(a, b, dim)" if is_number(parts["start"], 0.0) else "f.scan(a, b, dim, start)"
    made = reader.lines.add(template(text, parts), "carried")
    return replace(value, expression=made, has=value.has | start.has | {along})


class _Linear:
    """A value as a factor times what the turn before made, and something else."""

    def __init__(self, lines: Lines, name: str) -> None:
        self._lines, self._name = lines, name

    def parts(self, expression: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return both."""
        if not self._depends(expression):
            return number(0.0), expression
        if isinstance(expression, ast.Name):
            if expression.id == self._name:
                return number(1.0), number(0.0)
            (a, b), line = self.parts(self._lines.found[expression.id].expression), self._lines.found[expression.id]
            return self._lines.add(a, f"{line.hint}_factor"), self._lines.add(b, f"{line.hint}_more")
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
            a, b = self.parts(expression.operand)
            return template("-a", {"a": a}), template("-a", {"a": b})
        if isinstance(expression, ast.BinOp):
            return self._of_two(expression)
        raise UnreadableError(
            "makes more of what the turn before made than a factor times it, and something else: that has no formula"
        )

    def _of_two(self, expression: ast.BinOp) -> tuple[ast.expr, ast.expr]:
        left, right = expression.left, expression.right
        own = self._depends(left), self._depends(right)
        (a, b), (c, d) = self.parts(left), self.parts(right)
        if isinstance(expression.op, (ast.Add, ast.Sub)):
            sign = "+" if isinstance(expression.op, ast.Add) else "-"
            return _joined(a, c, sign), _joined(b, d, sign)
        if isinstance(expression.op, ast.Mult) and own != (True, True):
            a, b, other = (a, b, right) if own[0] else (c, d, left)
            return _times(a, other), _times(b, other)
        if isinstance(expression.op, ast.Div) and own == (True, False):
            return template("a / b", {"a": a, "b": right}), template("a / b", {"a": b, "b": right})
        raise UnreadableError("multiplies what the turn before made by itself, or divides by it: that has no formula")

    def _depends(self, expression: ast.expr) -> bool:
        names = {each.id for each in ast.walk(expression) if isinstance(each, ast.Name)}
        if self._name in names:
            return True
        return any(self._depends(self._lines.found[each].expression) for each in names if each in self._lines.found)


def _joined(a: ast.expr, b: ast.expr, sign: str) -> ast.expr:
    if is_number(b, 0.0):
        return a
    if is_number(a, 0.0):
        return b if sign == "+" else template("-a", {"a": b})
    return template(f"a {sign} b", {"a": a, "b": b})


def _times(a: ast.expr, other: ast.expr) -> ast.expr:
    return a if is_number(a, 0.0) else template("a * b", {"a": a, "b": other})


@rule("stacked")
def _stacked(reader: Reader, self: Value, dim: int) -> Value:
    axes = [*self.axes]
    axes.insert(dim % (self.rank + 1), (_turns(reader),))
    return replace(self, axes=tuple(axes))


@rule("joined")
def _joined_along(reader: Reader, self: Value, dim: int) -> Value:
    axes = [*self.axes]
    if axes[dim]:
        raise UnreadableError("puts what turns made of several elements beside each other")
    axes[dim] = (_turns(reader),)
    return replace(self, axes=tuple(axes))


@rule("last")
def _last(reader: Reader, self: Value) -> Value:
    along = _turns(reader)
    place = template("f.extent(dim) - 1.0", {"dim": of_dims([along])})
    return taken_at(reader, self, along, place, ())
