"""Identities: other expressions with the same exact value, which kernels use instead of what a reference writes. Each
row of the table has a pattern, in which a letter stands for any expression, and the other expression.
`oracles.algorithm` checks, for each formula with a match, that both have the same value. An expression with larger
errors than the reference's is `weaker`: a kernel must declare it, and the report about a failing kernel that uses it
names it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from fuzz.references.lines import FormulaLine, Lines, template


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


def note(lines: Lines, line: FormulaLine) -> None:
    """Add to a line the other expressions that the table has for it."""
    for each in IDENTITIES:
        found = next(_Matching(lines, each.way).matches(_parsed(each.pattern), line.expression, {}), None)
        if found is not None:
            line.ways.setdefault(each.way, template(each.text, **dict(found)))


@lru_cache(maxsize=64)
def _parsed(pattern: str) -> ast.expr:
    return ast.parse(pattern, mode="eval").body


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
