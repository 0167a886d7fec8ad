"""Casts, and roundings to whole numbers. Those to shorter floats are no part of a value, all others are meant."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from fuzz.references.dims import UnreadableError
from fuzz.references.elementwise import HALVES, rule
from fuzz.references.lines import called
from fuzz.references.reading import Reader
from fuzz.references.scope import Value
from oracles.dtypes import COMPUTED, DTYPES, FORMATS, SPELLED

_ROUNDED = ("floor", "round", "sign", "argmax", "argmin", "argsort", "position", "extent")
_KEPT = ("total", "greatest", "take", "where", "point")
"""What these make of whole numbers is one."""


@rule("_to_copy", "to")
def _cast(reader: Reader, self: Value, dtype: str | None, **_: object) -> Value:
    return rounded_to(reader, self, self.dtype if dtype is None else dtype)


def rounded_to(reader: Reader, self: Value, to: str) -> Value:
    """Return a value in another dtype."""
    if "float8" in self.dtype and to != self.dtype:
        raise UnreadableError(f"goes on from {self.dtype.removeprefix('torch.')}: formulas round to that at their end")
    if to == "torch.bool":
        return Value(None, self.axes, self.has, to, condition=reader.mask(self))
    if "int" in to:
        return replace(self if self.places else whole(reader, self), dtype=to)
    if self.places:
        return replace(self, expression=reader.expression(self), dtype=to, places="")
    line = reader.lines.line(self.expression) if self.expression is not None else None
    if line is None or to not in HALVES or self.dtype in HALVES:
        return replace(self, dtype=to)
    line.rounded = True
    return replace(reader.line("f.point(x)", "rounded", self, x=self), dtype=to)


@rule("trunc", "fix")
def whole(reader: Reader, self: Value) -> Value:
    """Return the whole number towards zero."""
    expression = reader.expression(self)
    if is_whole(reader, expression):
        return replace(self, expression=expression, condition=None)
    return reader.line("f.where(x < 0.0, -f.floor(-x), f.floor(x))", "whole", self, x=self)


@rule("ceil")
def _ceil(reader: Reader, self: Value) -> Value:
    return reader.each("-f.floor(-x)", "ceil", x=self)


@rule("round.decimals")
def _decimals(reader: Reader, self: Value, **_: Any) -> Value:
    raise UnreadableError("rounds to decimals: write torch.round(x * 10) / 10")


def is_whole(reader: Reader, expression: ast.expr) -> bool:
    """Whether an expression of the formula is a whole number for certain."""
    if isinstance(expression, ast.Name):
        line = reader.lines.line(expression)
        return line is not None and is_whole(reader, line.expression)
    if isinstance(expression, ast.Constant):
        return isinstance(expression.value, (int, float)) and float(expression.value).is_integer()
    if isinstance(expression, ast.UnaryOp):
        return isinstance(expression.op, ast.USub) and is_whole(reader, expression.operand)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, (ast.Add, ast.Sub, ast.Mult)):
        return is_whole(reader, expression.left) and is_whole(reader, expression.right)
    if isinstance(expression, ast.Subscript):  # the places beside the elements of some rank
        return isinstance(expression.slice, ast.Constant) and expression.slice.value == 1
    if not isinstance(expression, ast.Call):
        return False
    name, args = called(expression), expression.args
    if name == "where":
        return all(is_whole(reader, each) for each in args[1:])
    return name in _ROUNDED or (name in _KEPT and is_whole(reader, args[0]))


def dtype_of(value: Value) -> str:
    """Return the dtype of an output as an operand has it: "" of floats that are as long as the first input."""
    spelling = value.dtype.removeprefix("torch.")
    own = SPELLED.get(spelling)
    if own is None and "float" not in spelling:
        known = ", ".join(name for name in DTYPES if name not in FORMATS)
        raise UnreadableError(f"returns {spelling}: outputs of integers are {known}")
    return "" if own is None or own.name in COMPUTED else own.name
