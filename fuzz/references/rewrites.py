"""Other arrangements of formulas that a reference writes out, as JAX's functions do: a normalised row, a logarithm of
shares, a polynomial. Kernels use them, and where a sum cancels, their errors differ."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz.references import identities
from fuzz.references.lines import FormulaLine, Lines, called, is_number, number, template


@dataclass(frozen=True)
class _Normal:
    """The parts of (x - mean) times `scale`, or divided by it."""

    x: ast.expr
    mean: ast.expr
    factor: str
    """The factor in a template: "scale", or 1 divided by it."""
    scale: ast.expr


def note(lines: Lines) -> None:
    """Add other algorithms to lines that have none."""
    normal = dict[str, _Normal]()
    for line in [*lines.found.values()]:
        if line.ways:
            continue
        if (found := _normal(lines, line.expression)) is not None:
            normal[line.key], line.hint = found, "normal"
            text = "x * factor - mean * factor".replace("factor", found.factor)
            line.ways["apart"] = template(text, x=found.x, mean=found.mean, scale=found.scale)
        _fold(lines, line, normal)
        _by_lse(lines, line)
        identities.note(lines, line)
    within = set[str]()
    for line in reversed([*lines.found.values()]):
        if not line.ways and line.key not in within:
            _expand(lines, line, within)


def _of(lines: Lines, expression: ast.expr) -> ast.expr:
    line = lines.line(expression)
    return expression if line is None else line.expression


def _normal(lines: Lines, expression: ast.expr) -> _Normal | None:
    """Return the parts of (x - mean of x) / sqrt(...), or of (x - mean of x) * rsqrt(...); else None."""
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
    """Return the x and the reduction in an expression x - reduction of x; None for other expressions."""
    away = _of(lines, away)
    if not isinstance(away, ast.BinOp) or not isinstance(away.op, ast.Sub):
        return None
    reduced = _of(lines, away.right)
    same = isinstance(reduced, ast.Call) and called(reduced) == how and ast.dump(reduced.args[0]) == ast.dump(away.left)
    return (away.left, away.right) if same else None


def _fold(lines: Lines, line: FormulaLine, normal: dict[str, _Normal]) -> None:
    """Add the algorithm with one factor and one term for a row or channel: x (r w) + (b - m (r w))."""
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
                line.ways["folded"] = template(text, **parts)
                return


def _by_lse(lines: Lines, line: FormulaLine) -> None:
    """Add the algorithm x - (log(mass) + most) to the logarithm of a share, (x - most) - log(mass)."""
    whole = line.expression
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Sub):
        return
    less, log = _less(lines, whole.left, "greatest"), _of(lines, whole.right)
    if less is None or not isinstance(log, ast.Call) or called(log) != "log":
        return
    mass = _of(lines, log.args[0])
    terms = _of(lines, mass.args[0]) if isinstance(mass, ast.Call) and called(mass) == "total" else mass
    if isinstance(terms, ast.Call) and called(terms) == "exp" and ast.dump(terms.args[0]) == ast.dump(whole.left):
        line.ways["by_lse"] = template("x - (a + most)", x=less[0], a=whole.right, most=less[1])


def _expand(lines: Lines, line: FormulaLine, within: set[str]) -> None:
    """Add the algorithm a x^2 + b x + c to a polynomial in Horner's form, (a x + b) x + c: the budget of this sum
    covers any other scheme. `within` are lines that are parts of others."""
    for x in _factors(lines, line.expression):
        terms, inner, rest = list[_Multiple](), list[str](), _Multiple(line.expression)
        while (found := _horner(lines, rest, x)) is not None:
            constant, rest = found
            terms.append(constant)
            inner += [each.id for each in ast.walk(rest.of) if isinstance(each, ast.Name)]
        if len(terms) > 1:
            texts = (each.text(power) for power, each in enumerate([*terms, rest]))
            given = {f"c{power}": each.of for power, each in enumerate([*terms, rest])}
            line.ways["expanded"] = template("".join(texts).removeprefix("+"), **given, x=x)
            within.update(inner)
            return


@dataclass(frozen=True)
class _Multiple:
    """An expression, or its negative if `sign` is -1."""

    of: ast.expr
    sign: int = 1

    def text(self, power: int) -> str:
        """Return the template of this expression times a power of x."""
        return f"{'+' if self.sign > 0 else '-'}{' * '.join([f'c{power}', *['x'] * power])}"


def _factors(lines: Lines, expression: ast.expr) -> Sequence[ast.expr]:
    """Return the factors of an operand of a sum; a named value is its own factor."""
    sides = (expression.left, expression.right) if isinstance(expression, ast.BinOp) else ()
    products = (each for each in (_of(lines, side) for side in sides) if isinstance(each, ast.BinOp))
    return [
        factor
        for each in products
        if isinstance(each.op, ast.Mult)
        for factor in (each.left, each.right)
        if isinstance(factor, ast.Name)
    ]


def _horner(lines: Lines, of: _Multiple, x: ast.expr) -> tuple[_Multiple, _Multiple] | None:
    """Return b and a of a sum a x + b; None for other expressions."""
    whole = _of(lines, of.of)
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Add | ast.Sub):
        return None
    less = -1 if isinstance(whole.op, ast.Sub) else 1
    sides = _Multiple(whole.left, of.sign), _Multiple(whole.right, of.sign * less)
    for side, other in (sides, sides[::-1]):
        if _is_same(side.of, x):
            return other, _Multiple(number(1.0), side.sign)
        scaled = _of(lines, side.of)
        if isinstance(scaled, ast.BinOp) and isinstance(scaled.op, ast.Mult):
            for factor, rest in ((scaled.left, scaled.right), (scaled.right, scaled.left)):
                if _is_same(factor, x):
                    return other, _Multiple(rest, side.sign)
    return None


def _is_same(a: ast.expr, b: ast.expr) -> bool:
    return ast.dump(a) == ast.dump(b)
