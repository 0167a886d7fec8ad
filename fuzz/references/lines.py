"""The lines of a formula while it is read: expressions of Python, made from templates, that refer to earlier lines. A
template is an expression in text, `0.5 * a * (1.0 + f.erf(a))`. A factor that stands for the number 1 is dropped."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeGuard

from fuzz.references.dims import Dim

KEPT = ("total", "greatest", "avg", "dot")
"""The results of these have names of their own: a contract may say in which order they add."""
Part = ast.expr | float | Dim | Sequence[Dim]
"""What stands for a name of a template."""
_WIDEST = 96
"""The longest line, in characters: an expression used once gets a line of its own if it would be longer."""


@dataclass(eq=False)
class FormulaLine:
    """A line of a formula, `name = expression`."""

    key: str
    """How other lines refer to the line until names are given."""
    expression: ast.expr
    hint: str
    """A word for the value: its name if the reference has none."""
    own: str = ""
    """The reference's name for the value."""
    rounded: bool = False
    """Whether the reference rounds the value for some use."""
    ways: dict[str, ast.expr] = field(default_factory=dict)
    """Other expressions of the same exact value, by name."""

    @property
    def stays(self) -> bool:
        """Whether the line keeps its name for whatever use, since a contract may refer to the name."""
        return bool(self.rounded or self.ways or self.own or called(self.expression) in KEPT)


@dataclass
class Lines:
    """All lines so far."""

    found: dict[str, FormulaLine] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """The line of each expression: what a reference calculates twice is written once."""

    def add(self, expression: ast.expr, hint: str) -> ast.expr:
        """Return the name of the expression's line, which is added if missing; a name or a number stays itself."""
        if isinstance(expression, (ast.Name, ast.Constant)):
            return expression
        said = ast.dump(expression)
        if said in self.said:
            return ast.Name(self.said[said])
        key = f"{len(self.found)} {hint}"  # not a valid name in Python, so the reference cannot have it
        self.found[key] = FormulaLine(key, expression, hint)
        self.said[said] = key
        return ast.Name(key)

    def call(self, expression: ast.expr, own: str) -> None:
        """Note what the reference calls a line."""
        line = self.line(expression)
        if line is not None:
            line.own = line.own or own

    def line(self, expression: ast.expr) -> FormulaLine | None:
        """Return the line that an expression refers to; None for an input or a number."""
        return self.found.get(expression.id) if isinstance(expression, ast.Name) else None

    def opened(self, expression: ast.expr) -> ast.expr:
        """Return the expression of the line that an expression refers to; others unchanged."""
        line = self.line(expression)
        return expression if line is None else line.expression

    def needed(self, outputs: Sequence[ast.expr]) -> Sequence[FormulaLine]:
        """Return the lines that outputs need, in order. An unnamed line that is used once is put into its user if it
        fits."""
        uses: dict[str, int] = {}
        waiting = [name for each in outputs for name in _names(each)]
        while waiting:
            key = waiting.pop()
            if key in self.found:
                uses[key] = uses.get(key, 0) + 1
                if uses[key] == 1:
                    waiting += _names(self.found[key].expression)
                    # The operands of another way have names.
                    waiting += 2 * [name for way in self.found[key].ways.values() for name in _names(way)]
        last = {name for each in outputs for name in _names(each)}
        lines: list[FormulaLine] = []
        inside: dict[str, ast.expr] = {}
        for key, line in self.found.items():
            if key not in uses:
                continue
            within = line.expression
            for name in _names(within):
                if name in inside:
                    fuller = substituted(within, {name: inside[name]})
                    if _length(fuller) <= _WIDEST:
                        within = fuller
                        inside.pop(name)
            # What did not fit is a line of its own, before the line that it was meant for.
            for name in [name for name in _names(within) if name in inside]:
                lines.append(replace(self.found[name], expression=inside.pop(name)))
            if uses[key] > 1 or line.stays or key in last:
                lines.append(replace(line, expression=within))
            else:
                inside[key] = within
        return lines


def template(text: str, /, **given: Part) -> ast.expr:
    """Return the expression of a template, with expressions, numbers and dimensions in place of names."""
    return substituted(parsed(text), {name: _written(each) for name, each in given.items()})


def _written(part: Part) -> ast.expr:
    if isinstance(part, ast.expr):
        return part
    return number(part) if isinstance(part, (int, float)) else of_dims([part] if isinstance(part, Dim) else part)


def number(value: float) -> ast.expr:
    """Return a number as Python writes it."""
    if math.isnan(value) or math.isinf(value):
        said = template(f"float({str(abs(value))!r})")
        return ast.UnaryOp(ast.USub(), said) if value < 0 else said
    plain = ast.Constant(abs(float(value)))
    return ast.UnaryOp(ast.USub(), plain) if math.copysign(1.0, value) < 0 else plain


def of_dims(dims: Sequence[Dim]) -> ast.expr:
    """Return the argument that names the dimensions of a reduction."""
    found: list[ast.expr] = [ast.Constant(dim) for dim in dims]  # type: ignore[arg-type]  # named in the end
    return found[0] if len(found) == 1 else ast.Tuple(found, ast.Load())


def is_number(expression: ast.expr, value: float | None = None) -> bool:
    """Whether an expression is a number, or that number."""
    return isinstance(expression, ast.Constant) and (value is None or expression.value == value)


def is_point(expression: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression rounds a value."""
    return called(expression) == "point" and isinstance(expression, ast.Call)


def substituted(expression: ast.expr, given: Mapping[str, ast.expr]) -> ast.expr:
    """Return a copy with these in place of names."""
    found: ast.expr = _Substitution(given).visit(copy.deepcopy(expression))
    return found


class _Substitution(ast.NodeTransformer):
    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._given.get(node.id, node))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Simplify: a product with 1 is its other factor, one with 1 / n a quotient, and adding -a is subtracting a."""
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult):
            for one, other in ((left, right), (right, left)):
                if is_number(one, 1.0):
                    return other
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div) and is_number(one.left, 1.0):
                    return ast.BinOp(other, ast.Div(), one.right)
        if isinstance(node.op, ast.Div) and is_number(right, 1.0):
            return left
        if isinstance(node.op, ast.Add) and isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub):
            return ast.BinOp(left, ast.Sub(), right.operand)
        return node


@lru_cache(maxsize=512)
def parsed(text: str) -> ast.expr:
    """Return an expression from its text."""
    return ast.parse(text, mode="eval").body


def _names(expression: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]


def _length(expression: ast.expr) -> int:
    return len(ast.unparse(_Shown().visit(copy.deepcopy(expression))))


class _Shown(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value: Any = node.value
        return ast.Constant(value.name) if isinstance(value, Dim) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(node.id.rpartition(" ")[2])


def called(expression: ast.expr) -> str:
    """Return the name of the function of `f` that an expression, or its negative, calls; "" for others."""
    while isinstance(expression, ast.UnaryOp):
        expression = expression.operand
    of = expression.func if isinstance(expression, ast.Call) else None
    return of.attr if isinstance(of, ast.Attribute) else ""
