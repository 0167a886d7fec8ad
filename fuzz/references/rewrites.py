"""Other arrangements of formulas that a reference writes out, as JAX's functions do: a normalised row, a logarithm of
shares, a polynomial. Kernels use them, and where a sum cancels, their errors differ.

Identities are other expressions with the same exact value, which kernels use instead of what a reference writes. Each
row of the table has a pattern, in which a letter stands for any expression, and the other expression.
`oracles.algorithm` checks, for each formula with a match, that both have the same value. An expression with larger
errors than the reference's is `weaker`: a kernel must declare it, and the report about a failing kernel that uses it
names it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from fuzz.references.lines import FormulaLine, Lines, called, number, parsed, template


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
        _by_identities(lines, line)
    within = set[str]()
    for line in reversed([*lines.found.values()]):
        if not line.ways and line.key not in within:
            _expand(lines, line, within)


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
    scale = lines.opened(scale)
    match scale:
        case ast.BinOp(ast.Constant(1.0), ast.Div(), right) if root == "rsqrt":
            scale, root = lines.opened(right), "sqrt"
    return called(scale) == root


def _less(lines: Lines, away: ast.expr, how: str) -> tuple[ast.expr, ast.expr] | None:
    """Return the x and the reduction in an expression x - reduction of x; None for other expressions."""
    away = lines.opened(away)
    if not isinstance(away, ast.BinOp) or not isinstance(away.op, ast.Sub):
        return None
    reduced = lines.opened(away.right)
    same = isinstance(reduced, ast.Call) and called(reduced) == how and ast.dump(reduced.args[0]) == ast.dump(away.left)
    return (away.left, away.right) if same else None


def _fold(lines: Lines, line: FormulaLine, normal: dict[str, _Normal]) -> None:
    """Add the algorithm with one factor and one term for a row or channel: x (r w) + (b - m (r w))."""
    whole = line.expression
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Add):
        return
    for product, bias in ((whole.left, whole.right), (whole.right, whole.left)):
        scaled = lines.opened(product)
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
    less, log = _less(lines, whole.left, "greatest"), lines.opened(whole.right)
    if less is None or not isinstance(log, ast.Call) or called(log) != "log":
        return
    mass = lines.opened(log.args[0])
    terms = lines.opened(mass.args[0]) if isinstance(mass, ast.Call) and called(mass) == "total" else mass
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
    products = (each for each in (lines.opened(side) for side in sides) if isinstance(each, ast.BinOp))
    return [
        factor
        for each in products
        if isinstance(each.op, ast.Mult)
        for factor in (each.left, each.right)
        if isinstance(factor, ast.Name)
    ]


def _horner(lines: Lines, of: _Multiple, x: ast.expr) -> tuple[_Multiple, _Multiple] | None:
    """Return b and a of a sum a x + b; None for other expressions."""
    whole = lines.opened(of.of)
    if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Add | ast.Sub):
        return None
    less = -1 if isinstance(whole.op, ast.Sub) else 1
    sides = _Multiple(whole.left, of.sign), _Multiple(whole.right, of.sign * less)
    for side, other in (sides, sides[::-1]):
        if _is_same(side.of, x):
            return other, _Multiple(number(1.0), side.sign)
        scaled = lines.opened(side.of)
        if isinstance(scaled, ast.BinOp) and isinstance(scaled.op, ast.Mult):
            for factor, rest in ((scaled.left, scaled.right), (scaled.right, scaled.left)):
                if _is_same(factor, x):
                    return other, _Multiple(rest, side.sign)
    return None


def _is_same(a: ast.expr, b: ast.expr) -> bool:
    return ast.dump(a) == ast.dump(b)


@dataclass(frozen=True)
class Identity:
    """A pattern and another expression with the same exact value."""

    way: str
    """The name of the algorithm in a contract."""
    pattern: str
    text: str
    weaker: bool


_T = "f.where(x + c < 0.0, 0.0, x + c)"
IDENTITIES = (
    Identity("by sigmoid", "0.5 * x * (1.0 + f.tanh(u))", "x * f.sigmoid(2.0 * u)", False),
    Identity("by tanh", "x * f.sigmoid(u)", "x * (0.5 * (1.0 + f.tanh(0.5 * u)))", True),
    Identity("by tanh", "f.sigmoid(u)", "0.5 * (1.0 + f.tanh(0.5 * u))", True),
    Identity("2 sigmoid - 1", "f.tanh(u)", "2.0 * f.sigmoid(2.0 * u) - 1.0", True),
    Identity("by lse", "f.exp(x - m) / f.total(f.exp(x - m), d)",
             "f.exp(x - (f.log(f.total(f.exp(x - m), d)) + m))", True),
    Identity("by log1p", "(1.0 - t) * x + c + f.log(f.exp(-c) + f.exp(-x - c))",
             "f.where(x < 0.0, 0.0, x) - x * t + f.log1p(f.exp(-f.where(x < 0.0, -x, x)))", True),
    Identity("by slope", f"x * f.where(d < {_T}, d, {_T}) / d",
             "x * f.where(1.0 < x / d + c / d, 1.0, f.where(x / d + c / d < 0.0, 0.0, x / d + c / d))", True),
    Identity("by slope", "x * f.where(x + c < 0.0, 0.0, f.where(d < x + c, d, x + c)) / d",
             "x * f.where(1.0 < x / d + c / d, 1.0, f.where(x / d + c / d < 0.0, 0.0, x / d + c / d))", True),
    *(Identity("welford", f"f.{reduced}({away.format(mean)} * {away.format(mean)}, d)", text, False)
      for reduced, text in (("avg", "f.welford_squares(x, d) / f.extent(d)"), ("total", "f.welford_squares(x, d)"))
      for mean in ("f.avg(x, d)", "f.total(x, d) / f.extent(d)") for away in ("(x - {})", "({} - x)", "abs(x - {})")),
    Identity("share", "(m - n) / m", "1.0 - n / m", True),
    Identity("by exp", "f.expm1(u)", "f.exp(u) - 1.0", True),
    Identity("by exp", "f.where(x > 0.0, x, f.expm1(u))", "f.where(x > 0.0, x, f.exp(u) - 1.0)", True),
    Identity("by exp", "f.where(x > 0.0, x, a * f.expm1(u))", "f.where(x > 0.0, x, a * (f.exp(u) - 1.0))", True),
    Identity("by erf", "f.erfc(u)", "1.0 - f.erf(u)", True),
    Identity("by sine", "f.tan(u)", "f.sin(u) / f.cos(u)", True),
    Identity("quotient", "f.log(p) - f.log(q)", "f.log(p / q)", True),
)  # fmt: skip
WEAKER = frozenset(each.way for each in IDENTITIES if each.weaker)

_Found = Mapping[str, ast.expr]
"""The expression for which each letter of a pattern stands."""
_ADDING, _MULTIPLYING = (ast.Add, ast.Sub), (ast.Mult,)


def _by_identities(lines: Lines, line: FormulaLine) -> None:
    """Add to a line the other expressions that the table has for it."""
    for each in IDENTITIES:
        found = next(_Matching(lines, each.way).matches(parsed(each.pattern), line.expression, {}), None)
        if found is not None:
            line.ways.setdefault(each.way, template(each.text, **found))


@dataclass(frozen=True)
class _Matching:
    """The matching of patterns with expressions of these lines."""

    lines: Lines
    way: str
    """The name of the algorithm whose patterns are matched. Lines that already have it are not expanded."""

    def matches(self, pattern: ast.expr, of: ast.expr, found: _Found) -> Iterator[_Found]:
        """Yield assignments of letters for which the pattern is the expression, in addition to those `found`."""
        if isinstance(pattern, ast.Name):
            known = found.get(pattern.id)
            if known is None:
                yield {**found, pattern.id: of}
            elif ast.dump(self._plain(known)) == ast.dump(self._plain(of)):
                yield found
            return
        of = self._plain(of)
        if isinstance(pattern, ast.BinOp) and isinstance(pattern.op, (*_ADDING, *_MULTIPLYING)):
            kinds = _ADDING if isinstance(pattern.op, _ADDING) else _MULTIPLYING
            if isinstance(of, ast.BinOp) and isinstance(of.op, kinds):
                yield from self._parted(self._parts(pattern, kinds), self._parts(of, kinds), found)
            return
        if type(pattern) is not type(of):
            return
        if isinstance(pattern, ast.Constant) and isinstance(of, ast.Constant):
            if pattern.value == of.value:
                yield found
            return
        yield from self._each(_operands(pattern), _operands(of), found)

    def _each(self, patterns: Sequence[object], of: Sequence[object], found: _Found) -> Iterator[_Found]:
        """Yield assignments for which operands, taken in order, and names of functions match."""
        if not patterns or len(patterns) != len(of):
            if len(patterns) == len(of):
                yield found
            return
        first, other = patterns[0], of[0]
        if isinstance(first, ast.expr) and isinstance(other, ast.expr):
            for each in self.matches(first, other, found):
                yield from self._each(patterns[1:], of[1:], each)
        elif first == other:
            yield from self._each(patterns[1:], of[1:], found)

    def _parted(
        self, patterns: Sequence[tuple[bool, ast.expr]], of: Sequence[tuple[bool, ast.expr]], found: _Found
    ) -> Iterator[_Found]:
        """Yield assignments for terms or factors in any order: fixed parts first, the last letter takes the rest."""
        if len(of) < len(patterns):
            return
        if not patterns:
            if not of:
                yield found
            return
        (less, first), *others = sorted(patterns, key=lambda each: isinstance(each[1], ast.Name))
        if not others and len(of) > 1:
            if isinstance(first, ast.Name) and not less and not any(each for each, _ in of):
                yield from self.matches(first, reduce(_product, (each for _, each in of)), found)
            return
        for place, (is_less, each) in enumerate(of):
            if is_less == less:
                for more in self.matches(first, each, found):
                    yield from self._parted(others, [*of[:place], *of[place + 1 :]], more)

    def _parts(
        self, of: ast.expr, kinds: tuple[type[ast.operator], ...], less: bool = False
    ) -> Sequence[tuple[bool, ast.expr]]:
        """Return the terms or factors of an expression, each after whether it is subtracted."""
        plain = self._plain(of)
        if isinstance(plain, ast.BinOp) and isinstance(plain.op, kinds):
            second = less ^ isinstance(plain.op, ast.Sub)
            return [*self._parts(plain.left, kinds, less), *self._parts(plain.right, kinds, second)]
        if kinds is _ADDING and isinstance(plain, ast.UnaryOp) and isinstance(plain.op, ast.USub):
            return self._parts(plain.operand, kinds, not less)
        return [(less, of)]

    def _plain(self, of: ast.expr) -> ast.expr:
        line = self.lines.line(of)
        return of if line is None or self.way in line.ways else line.expression


def _operands(of: ast.expr) -> Sequence[object]:
    """Return the operands of an expression in order, and its operator's type."""
    if isinstance(of, ast.BinOp):
        return type(of.op), of.left, of.right
    if isinstance(of, ast.UnaryOp):
        return type(of.op), of.operand
    if isinstance(of, ast.Compare):
        return tuple(map(type, of.ops)), of.left, *of.comparators
    if isinstance(of, ast.Call):
        return ast.unparse(of.func), *of.args
    return ()


def _product(a: ast.expr, b: ast.expr) -> ast.expr:
    return ast.BinOp(a, ast.Mult(), b)
