"""Other ways to what a reference writes out by itself, as JAX's functions do: a row that is made normal, a logarithm of
shares. Kernels take them, and a sum that cancels errs by more in one than in the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from oracles.reference.lines import Line, Lines, called, is_number, template


@dataclass(frozen=True)
class _Normal:
    """What is less its mean, times or over something."""

    x: ast.expr
    mean: ast.expr
    factor: str
    """In a template: `scale`, or 1 over it."""
    scale: ast.expr


def note(lines: Lines) -> None:
    """Note other ways to lines that have none."""
    normal = dict[str, _Normal]()
    for line in [*lines.found.values()]:
        if line.ways:
            continue
        if (found := _normal(lines, line.expression)) is not None:
            normal[line.key], line.hint = found, "normal"
            text = "x * factor - mean * factor".replace("factor", found.factor)
            line.ways["apart"] = template(text, {"x": found.x, "mean": found.mean, "scale": found.scale})
        _fold(lines, line, normal)
        _by_lse(lines, line)


def _of(lines: Lines, expression: ast.expr) -> ast.expr:
    line = lines.line(expression)
    return expression if line is None else line.expression


def _normal(lines: Lines, expression: ast.expr) -> _Normal | None:
    """What an expression is if it is (x - mean of x) / sqrt(...), or times rsqrt(...)."""
    if not isinstance(expression, ast.BinOp):
        return None
    sides = [(expression.left, expression.right)]
    if isinstance(expression.op, ast.Mult):
        sides, root, factor = [*sides, (expression.right, expression.left)], "rsqrt", "scale"
    elif isinstance(expression.op, ast.Div):
        root, factor = "sqrt", "(1.0 / scale)"
    else:
        return None
    for away, scale in sides:
        less = _less(lines, away, "avg")
        if less is not None and _is_root(lines, scale, root):
            return _Normal(*less, factor, scale)
    return None


def _is_root(lines: Lines, scale: ast.expr, root: str) -> bool:
    scale = _of(lines, scale)
    if (
        root == "rsqrt"
        and isinstance(scale, ast.BinOp)
        and isinstance(scale.op, ast.Div)
        and is_number(scale.left, 1.0)
    ):
        scale, root = _of(lines, scale.right), "sqrt"
    return called(scale) == root


def _less(lines: Lines, away: ast.expr, how: str) -> tuple[ast.expr, ast.expr] | None:
    """What an expression is a reduction of itself less, and that."""
    away = _of(lines, away)
    if not isinstance(away, ast.BinOp) or not isinstance(away.op, ast.Sub):
        return None
    reduced = _of(lines, away.right)
    same = isinstance(reduced, ast.Call) and called(reduced) == how and ast.dump(reduced.args[0]) == ast.dump(away.left)
    return (away.left, away.right) if same else None


def _fold(lines: Lines, line: Line, normal: dict[str, _Normal]) -> None:
    """One factor, and one term, of a row or channel: x (r w) + (b - m (r w))."""
    whole = line.expression
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Add):
        return
    for product, bias in ((whole.left, whole.right), (whole.right, whole.left)):
        scaled = _of(lines, product)
        if not isinstance(scaled, ast.BinOp) or not isinstance(scaled.op, ast.Mult):
            continue
        for one, weight in ((scaled.left, scaled.right), (scaled.right, scaled.left)):
            if isinstance(one, ast.Name) and (found := normal.get(one.id)) is not None:
                parts = {"x": found.x, "mean": found.mean, "scale": found.scale, "weight": weight, "bias": bias}
                text = "x * (factor * weight) + (bias - mean * (factor * weight))".replace("factor", found.factor)
                line.ways["folded"] = template(text, parts)
                return


def _by_lse(lines: Lines, line: Line) -> None:
    """The logarithm of a share, (x - most) - log(mass), as x - (log(mass) + most)."""
    whole = line.expression
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Sub):
        return
    less, log = _less(lines, whole.left, "greatest"), _of(lines, whole.right)
    if less is None or not isinstance(log, ast.Call) or called(log) != "log":
        return
    mass = _of(lines, log.args[0])
    terms = _of(lines, mass.args[0]) if isinstance(mass, ast.Call) and called(mass) == "total" else mass
    if isinstance(terms, ast.Call) and called(terms) == "exp" and ast.dump(terms.args[0]) == ast.dump(whole.left):
        line.ways["by_lse"] = template("x - (a + most)", {"x": less[0], "a": whole.right, "most": less[1]})
