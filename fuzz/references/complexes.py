"""Complex numbers as pairs of real and imaginary parts, since formulas have none; rotations of pairs use them.

Fourier transforms are sums of complex numbers times sines and cosines, along one axis after the other. Kernels
calculate them in stages, so that errors depend on the whole row even where sines and cosines are small. The formula
adds the sum of the row's magnitudes and subtracts it again, so that the budget includes those errors.

Products and roots need not be right in both parts. A kernel that multiplies three times (Higham, 1992), or calculates
by the angle, is right by the norm of the whole number. The algorithm `BY_NORM` of a part includes such errors.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Dim, Pair, UnreadableError
from fuzz.references.elementwise import both, opposite, rule
from fuzz.references.lines import number, of_dims, template
from fuzz.references.maps import single
from fuzz.references.reading import Reader
from fuzz.references.scope import COMPLEX, Complex, Number, Rule, Value
from fuzz.references.transforms import WAVE
from oracles.algorithm import BY_NORM
from oracles.formula.node import Node

_ALIKE = (
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "permute", "t", "transpose", "unsqueeze", "squeeze",
    "expand", "slice", "select", "index_select", "clone", "alias", "detach", "contiguous", "lift_fresh_copy",
    "lift_fresh", "_to_copy", "to", "roll", "flip", "cumsum", "where", "masked_fill", "cat", "stack",
    "constant_pad_nd", "index", "gather", "tril", "triu", "diagonal", "split", "split_with_sizes", "unbind", "copy",
    "index_add", "scatter_add", "index_copy", "index_put", "slice_scatter", "select_scatter",
)  # fmt: skip
"""Operations that treat both parts alike."""
Given = Complex | Value | complex | Number


def _alike(reader: Reader, **given: Any) -> Any:
    """Return what an operation makes of both parts; of each part of several results if it has several."""
    made, given = list[Any](), {**given, **({"dtype": "torch.float32"} if "dtype" in given else {})}
    tensors = [each for each in given.values() if isinstance(each, (list, Complex)) or _is_float(each)]
    for at in (0, 1):
        absent = len(tensors) == 1 and isinstance(tensors[0], Complex) and tensors[0].parts[at] is None
        some = {name: _part_of(each, at) for name, each in given.items()}
        found = None if absent else _plain(reader)(reader, **some)
        found = replace(found, dtype="torch.float32") if isinstance(found, Value) else found
        made.append(found)
    several = [each for each in made if isinstance(each, (list, tuple))]
    if not several:
        return Complex(*made)
    return [Complex(*parts) for parts in zip(*(each or [None] * len(several[0]) for each in made), strict=True)]


def _plain(reader: Reader) -> Rule:
    """Return the rule of the present operation for real numbers."""
    op = reader.step.op
    return reader.rules.get(f"{op}.{reader.step.overload}") or reader.rules.get(op) or reader.rules["clone"]


def _part_of(given: Any, at: int) -> Any:
    """Return the real (0) or imaginary (1) part of an argument; indices, conditions and sizes unchanged."""
    if isinstance(given, list) and any(isinstance(each, (Complex, Value)) for each in given):
        return [_part_of(each, at) for each in given]
    if isinstance(given, Complex):
        like = next(each for each in given.parts if each is not None)
        return given.parts[at] or replace(like, expression=number(0.0), has=frozenset())
    if isinstance(given, complex):
        return (given.real, given.imag)[at]
    return replace(given, expression=number(0.0), has=frozenset()) if _is_float(given) and at else given


def _is_float(given: Any) -> bool:
    return isinstance(given, Value) and ("float" in given.dtype or "complex" in given.dtype)


for _name in _ALIKE:
    rule(f"{COMPLEX}{_name}")(_alike)


def parts_of(reader: Reader, given: Given) -> Complex:
    """Return a number as a pair of real and imaginary part."""
    if isinstance(given, Complex):
        return given
    if isinstance(given, complex):
        parts = [Value(reader.number(part)) if part else None for part in (given.real, given.imag)]
        return Complex(*parts)
    real = given if isinstance(given, Value) else Value(reader.number(given))
    return Complex(replace(real, dtype="torch.float32") if "complex" in real.dtype else real, None)


def summed(reader: Reader, *terms: tuple[str, Sequence[Value | None]]) -> Value | None:
    """Return the sum of signed products. A product with a missing part is 0; None if all products are."""
    text, given = "", dict[str, Value]()
    for sign, factors in terms:
        there = [each for each in factors if each is not None]
        if len(there) < len(factors):
            continue
        names = ["abcdefgh"[len(given) + at] for at in range(len(there))]
        given |= dict(zip(names, there, strict=True))
        text += f" {sign} {' * '.join(names)}" if text else f"{'-' * (sign == '-')}{' * '.join(names)}"
    return replace(reader.each(text, "part", **given), dtype="torch.float32") if text else None


def whole(reader: Reader, part: Value | None) -> Value:
    """Return a part; 0 if it is missing."""
    return part if part is not None else Value(reader.number(0.0))


_OF_PRODUCT, _OF_QUOTIENT = "4.0 * a * b", "0.25 * (a / b)"
_OF_ROOT, _OF_POWER = "0.25 * f.sqrt(r)", "0.25 * f.exp(p * f.log(r))"
_OF_POWERS: Mapping[float, str] = {2: "r * r * 0.25", 3: "r * r * r * 0.25", 4: "r * r * r * r * 0.25"}
"""Numbers of which a part may have eight times the error besides its own, and which overflow where the whole number
does. Measured in u of the whole number, with functions of 4 ulp: products may be off by 24 to 57, of which three
products need 7, and the angle in NumPy 14; quotients by 50, and roots by 35, of which logarithms need
2 + 2 log |z|."""


def _by_norm(reader: Reader, made: Complex, *norms: Value) -> Complex:
    """Return complex numbers whose parts may also have the errors of `norms`, the same number calculated twice; without
    any, the numbers as they are."""
    named = dict(zip(("norm", "again"), map(reader.expression, norms), strict=False))
    for part in made.parts if norms else ():
        line = None if part is None or part.expression is None else reader.lines.line(part.expression)
        if line is not None:
            line.ways[BY_NORM] = template("part + 4.0 * (abs(norm) - abs(again))", **named, part=line.expression)
    return made


def _factors(reader: Reader, a: Complex, b: Complex) -> Sequence[tuple[Value, Value]]:
    """Return (|real| + |imag|) / 2 of both factors, twice, so that errors that many elements share do not cancel; () if
    a part is missing, so that no part of a product is a difference."""
    if None in (*a.parts, *b.parts):
        return ()
    texts = "0.5 * (abs(a) + abs(b))", "0.5 * (abs(b) + abs(a))"
    x, y = ([reader.each(text, "half", a=each.real, b=each.imag) for text in texts] for each in (a, b))  # type: ignore[arg-type]
    return [*zip(x, y, strict=True)]


def _sizes(reader: Reader, given: Complex) -> Sequence[Value]:
    """Return a magnitude twice, as `_factors` does."""
    real, imag = (whole(reader, each) for each in given.parts)
    return [reader.each("f.hypot(a, b)", "size", a=a, b=b) for a, b in ((real, imag), (imag, real))]


@rule("complex")
def _complex(reader: Reader, real: Value, imag: Value) -> Complex:
    return Complex(*reader.met(real, imag))


@rule("polar")
def _polar(reader: Reader, abs: Value, angle: Value) -> Complex:  # noqa: A002 (torch's own names)
    return Complex(*(reader.each(f"r * f.{name}(a)", name, r=abs, a=angle) for name in ("cos", "sin")))


@rule("view_as_complex")
def _viewed(reader: Reader, self: Value) -> Complex:
    return Complex(*(reader.rules["select"](reader, self, self.rank - 1, place) for place in (0, 1)))


@rule("view_as_real", f"{COMPLEX}view_as_real")
def _as_pairs(reader: Reader, self: Given) -> Any:
    self = parts_of(reader, self)
    parts = reader.met(whole(reader, self.real), whole(reader, self.imag))
    rank = len(reader.shape()) - 1
    wide = [replace(each, axes=((),) * (rank - each.rank) + each.axes) for each in parts]
    return reader.rules["stack"](reader, wide, -1)


@rule("real", "imag", f"{COMPLEX}real", f"{COMPLEX}imag")
def _part(reader: Reader, self: Given) -> Value:
    found: Value = _part_of(self, ("real", "imag").index(reader.step.op))
    return replace(found, dtype="torch.float32")


@rule("_neg_view")
def _opposite_part(reader: Reader, self: Value) -> Value:
    return reader.each("-x", "part", x=self)


@rule(f"{COMPLEX}mul")
def _product(reader: Reader, self: Given, other: Given) -> Complex:
    a, b = parts_of(reader, self), parts_of(reader, other)
    made = replace(_by_parts(reader, a, b), factors=_factors(reader, a, b))
    return _by_norm(reader, made, *(reader.each(_OF_PRODUCT, "norm", a=x, b=y) for x, y in made.factors))


def _by_parts(reader: Reader, a: Complex, b: Complex) -> Complex:
    """Return a product whose parts are sums of two products each."""
    signed = ("+", a.real, b.real), ("-", a.imag, b.imag)
    terms = [
        [(sign, reader.each("x * y", "part", x=x, y=y)) for sign, x, y in some if x is not None and y is not None]
        for some in (signed, (("+", a.real, b.imag), ("+", a.imag, b.real)))
    ]
    return Complex(*(summed(reader, *((sign, (each,)) for sign, each in some)) for some in terms), terms=terms)


@rule(f"{COMPLEX}sum", f"{COMPLEX}mean")
def _total(reader: Reader, self: Complex, **given: Any) -> Any:
    """Return a sum; of products as the sums of all products, which many libraries make one by one."""
    if not any(self.terms):
        return _alike(reader, self=self, **given)
    plain = _plain(reader)
    made = Complex(*(
        summed(reader, *((sign, (plain(reader, each, **given),)) for sign, each in some)) for some in self.terms
    ))  # fmt: skip
    products = (reader.each("a * b", "norm", a=x, b=y) for x, y in self.factors)
    return _by_norm(reader, made, *(plain(reader, each, **given) for each in products))


_SUMS_OF_PRODUCTS = "mm", "bmm", "matmul", "mv", "dot", "vdot"


@rule(*(f"{COMPLEX}{name}" for name in _SUMS_OF_PRODUCTS))
def _dot(reader: Reader, op: str = "", **given: Given) -> Complex:
    op = op or reader.step.op
    (first, a), (second, b) = ((name, parts_of(reader, each)) for name, each in given.items())
    a = _negative(reader, a, conjugates=True) if op == "vdot" else a
    made = [[x and y and reader.rules[op](reader, **{first: x, second: y}) for y in b.parts] for x in a.parts]
    (plain, of_b), (of_a, both) = made
    found = Complex(summed(reader, ("+", (plain,)), ("-", (both,))), summed(reader, ("+", (of_b,)), ("+", (of_a,))))
    sums = (reader.rules[op](reader, **{first: x, second: y}) for x, y in _factors(reader, a, b))
    return _by_norm(reader, found, *sums)


@rule(*(f"{COMPLEX}{name}" for name in ("add", "sub", "rsub")))
def _added(reader: Reader, self: Given, other: Given, alpha: Number = 1, op: str = "") -> Complex:
    op = op or reader.step.op
    b = other if alpha == 1 else _product(reader, other, alpha)
    one, two = (parts_of(reader, each) for each in ((b, self) if op == "rsub" else (self, b)))
    sign = "+" if op == "add" else "-"
    parts = (summed(reader, ("+", (x,)), (sign, (y,))) for x, y in zip(one.parts, two.parts, strict=True))
    return Complex(*parts)


_ADDED = {"addmm": "mm", "addmv": "mv", "baddbmm": "bmm"}


@rule(f"{COMPLEX}addcmul", *(f"{COMPLEX}{name}" for name in _ADDED))
def _with_product(reader: Reader, self: Given, beta: Number = 1, alpha: Number = 1, **given: Any) -> Complex:
    value = given.pop("value", alpha)
    if reader.step.op == "addcmul":
        made = _product(reader, *given.values())
    else:
        made = _dot(reader, op=_ADDED[reader.step.op], **given)
    return _added(reader, self if beta == 1 else _product(reader, self, beta), made, value, op="add")


@rule(*(f"{COMPLEX}{name}" for name in ("neg", "_conj", "conj_physical", "_conj_physical")))
def _negative(reader: Reader, self: Complex, *, conjugates: bool = False) -> Complex:
    keeps = conjugates or reader.step.op != "neg"
    return Complex(self.real if keeps else summed(reader, ("-", (self.real,))), summed(reader, ("-", (self.imag,))))


@rule(*(f"{COMPLEX}{name}" for name in ("div.Tensor", "div.Scalar")))
def _quotient(reader: Reader, self: Given, other: Given) -> Complex:
    """Return a quotient as a sum of quotients, so that kernels by Smith's method or by a reciprocal are right too."""
    a, b = parts_of(reader, self), parts_of(reader, other)
    if b.imag is None:
        return Complex(*(each and reader.each("a / b", "part", a=each, b=whole(reader, b.real)) for each in a.parts))
    size = whole(reader, summed(reader, ("+", (b.real, b.real)), ("+", (b.imag, b.imag))))
    shares = Complex(*(each and reader.each("a / b", "share", a=each, b=size) for each in b.parts))
    found = _by_parts(reader, a, _negative(reader, shares, conjugates=True))
    pairs = zip(_sizes(reader, a), _sizes(reader, b), strict=True)
    return _by_norm(reader, found, *(reader.each(_OF_QUOTIENT, "norm", a=x, b=y) for x, y in pairs))


@rule(f"{COMPLEX}reciprocal", f"{COMPLEX}pow.Tensor_Scalar")
def _power(reader: Reader, self: Complex, exponent: Number = -1) -> Any:
    if not isinstance(exponent, int | float):
        raise UnreadableError("takes a power of complex numbers that is no real number: write exp(w * log(z))")
    if exponent in (-1, 0.5):
        return _quotient(reader, 1.0, self) if exponent == -1 else _root(reader, self)
    if exponent not in _OF_POWERS:
        return _by_angle(reader, self, exponent)
    half = _by_parts(reader, self, self)
    found = half if exponent == 2 else _by_parts(reader, half, self if exponent == 3 else half)
    sizes = _sizes(reader, self)
    return _by_norm(reader, found, *(reader.each(_OF_POWERS[exponent], "norm", r=each) for each in sizes))


def _by_angle(reader: Reader, base: Complex, exponent: float) -> Complex:
    """Return a power by the angle, in which its errors grow with the exponent."""
    sizes = _sizes(reader, base)
    size = reader.each("f.exp(p * f.log(r))", "size", r=sizes[0], p=exponent)
    turned = reader.each("p * a", "turned", p=exponent, a=_angle(reader, base))
    made = Complex(*(reader.each(f"r * f.{name}(a)", "part", r=size, a=turned) for name in ("cos", "sin")))
    return _by_norm(reader, made, *(reader.each(_OF_POWER, "norm", r=each, p=exponent) for each in sizes))


@rule(f"{COMPLEX}abs")
def _absolute(reader: Reader, self: Complex) -> Value:
    if self.real is not None and self.imag is not None:
        return reader.each("f.hypot(a, b)", "size", a=self.real, b=self.imag)
    return reader.each("abs(a)", "size", a=whole(reader, self.real or self.imag))


@rule(f"{COMPLEX}linalg_vector_norm")
def _norm(reader: Reader, self: Complex, **given: Any) -> Any:
    return reader.rules["linalg_vector_norm"](reader, self=_absolute(reader, self), **given)


@rule(f"{COMPLEX}angle")
def _angle(reader: Reader, self: Complex) -> Value:
    return reader.each("f.atan2(b, a)", "angle", a=whole(reader, self.real), b=whole(reader, self.imag))


@rule(f"{COMPLEX}sgn")
def _sign(reader: Reader, self: Complex) -> Complex:
    size = _absolute(reader, self)
    return Complex(*(x and reader.each("f.where(r == 0.0, 0.0, a / r)", "part", a=x, r=size) for x in self.parts))


@rule(*(f"{COMPLEX}{name}" for name in ("eq", "ne")))
def _equal(reader: Reader, self: Given, other: Given) -> Value:
    one, two = (parts_of(reader, each) for each in (self, other))
    pairs = zip(one.parts, two.parts, strict=True)
    same = [reader.compared("a == b", a=whole(reader, x), b=whole(reader, y)) for x, y in pairs]
    found = both(reader, "a & b", *same)
    return found if reader.step.op == "eq" else opposite(reader, found)


_PARTS: Mapping[str, tuple[str, str]] = {
    "sin": ("f.sin(a) * f.cosh(b)", "f.cos(a) * f.sinh(b)"),
    "cos": ("f.cos(a) * f.cosh(b)", "-f.sin(a) * f.sinh(b)"),
    "sinh": ("f.sinh(a) * f.cos(b)", "f.cosh(a) * f.sin(b)"),
    "cosh": ("f.cosh(a) * f.cos(b)", "f.sinh(a) * f.sin(b)"),
    "log": ("f.log(f.hypot(a, b))", "f.atan2(b, a)"),
}
"""The parts of functions of a + b i."""


@rule(*(f"{COMPLEX}{name}" for name in _PARTS))
def _function(reader: Reader, self: Complex) -> Complex:
    a, b = (whole(reader, each) for each in self.parts)
    return Complex(*(reader.each(text, "part", a=a, b=b) for text in _PARTS[reader.step.op]))


@rule(f"{COMPLEX}sqrt")
def _root(reader: Reader, self: Complex) -> Complex:
    """Return the root by Kahan's formulas, in which nothing cancels; atan2 tells the sign of a zero."""
    a, b = (whole(reader, each) for each in self.parts)
    size = reader.each("f.sqrt(0.5 * (f.hypot(a, b) + abs(a)))", "root", a=a, b=b)
    other = reader.each("f.where(r == 0.0, 0.0, 0.5 * abs(b) / r)", "other", b=b, r=size)
    real = reader.each("f.where(a < 0.0, y, x)", "part", a=a, x=size, y=other)
    imag = reader.each(
        "f.where(a < 0.0, x, y) * f.where(f.atan2(b, -1.0) < 0.0, -1.0, 1.0)", "part", a=a, b=b, x=size, y=other
    )
    norms = (reader.each(_OF_ROOT, "norm", r=each) for each in _sizes(reader, self))
    return _by_norm(reader, Complex(real, imag), *norms)


@rule(f"{COMPLEX}exp")
def _exponential(reader: Reader, self: Complex) -> Complex:
    angle = whole(reader, self.imag)
    size = None if self.real is None else reader.each("f.exp(a)", "e", a=self.real)
    return Complex(*(
        reader.each(f"f.{name}(a)", name, a=angle) if size is None
        else reader.each(f"e * f.{name}(a)", name, e=size, a=angle) for name in ("cos", "sin")
    ))  # fmt: skip


_BY_ROOT = 1
"""Torch's number for a transform divided by the root of its length; 2 means divided by the length, 0 not divided."""
_COS, _SIN = "cos", "sin"
_ZEROS = {_COS: "(4.0 * m == n) | (4.0 * m == 3.0 * n)", _SIN: "(m == 0.0) | (2.0 * m == n)"}
"""The conditions on an angle of m / n turns under which cosine and sine are exactly 0."""


@rule("_fft_r2c", "_fft_c2c", f"{COMPLEX}_fft_c2c", f"{COMPLEX}_fft_c2r")
def _transformed(reader: Reader, self: Given, dim: Sequence[int], normalization: int, **given: Any) -> Complex | Value:
    """Return a Fourier transform, one axis after the other: the last axis first, or last if the result is real."""
    shape, is_real = reader.shape(), reader.step.op == "_fft_c2r"
    found, axes = parts_of(reader, self), [each % len(shape) for each in (dim if is_real else dim[::-1])]
    forward = given.get("forward", not is_real)
    for at in axes:
        to_real = is_real and at == axes[-1]
        found, count = _along(reader, found, at, shape[at], forward=forward, to_real=to_real)
        if normalization:
            text = "a / f.sqrt(n)" if normalization == _BY_ROOT else "a / n"
            parts = [each and reader.each(text, "scaled", a=each, n=count) for each in found.parts]
            found = Complex(*parts)
    return whole(reader, found.real) if is_real else found


def _along(
    reader: Reader, given: Complex, at: int, size: Pair, *, forward: bool, to_real: bool
) -> tuple[Complex, Value]:
    """Return the unscaled transform along one axis, which then has `size` places, and the length n of the transform."""
    there = {name: each for name, each in (("re", given.real), ("im", given.imag)) if each is not None}
    met = reader.met(*there.values())
    axes = reader.aligned(met)
    singles = [single(reader, replace(each, axes=axes), at) for each in met]
    along, others = singles[0][1], (*axes[:at], *axes[at + 1 :])
    taken = {along, *(dim for axis in others for dim in axis)}
    [out] = reader.dim(size) or (reader.sizes.new(Node("constant", value=1.0), "one"),)
    out = reader.copy(out, taken) if out in taken else out
    turns = out if to_real else along
    waves = _waves(reader, along, out, turns, reader.copy(turns, {*taken, out}))
    parts = {name: replace(value, axes=(*others, (along,))) for name, (value, _) in zip(there, singles, strict=True)}
    n = template("f.extent(dim)", dim=turns)
    if to_real:  # all terms except the ends count twice
        text = "f.where((k == 0.0) | (2.0 * k == n), 1.0, 2.0)"
        twice = reader.add(text, "twice", k=reader.place(along), n=n)
        times = Value(twice, ((along,),), frozenset({along}))
        parts = {name: reader.each("a * b", "half", a=each, b=times) for name, each in parts.items()}
    sizes = [reader.each("abs(a)", "size", a=each) for each in parts.values()]
    size_of = reader.each("a + b", "size", a=sizes[0], b=sizes[1]) if sizes[1:] else sizes[0]
    room = reader.reduced("total", "size", size_of, -1, True)

    def added(*terms: tuple[str, str, str]) -> Value | None:
        found = list[tuple[str, list[Value]]]()
        for sign, name, wave in terms:
            if name in parts:
                wide = replace(parts[name], axes=(*others, (), (along,)))
                made = reader.reduced("dot", WAVE, wide, -1, False, waves[wave])
                found.append((sign, [replace(made, axes=(*others, (out,)))]))
        of_axis = summed(reader, *found, ("+", [room]), ("-", [room]))
        return of_axis and replace(of_axis, axes=(*others[:at], (out,), *others[at:]))

    plus, minus = "+-" if forward else "-+"
    real = added(("+", "re", _COS), (plus, "im", _SIN))
    return Complex(real, None if to_real else added(("+", "im", _COS), (minus, "re", _SIN))), Value(n)


def _waves(reader: Reader, along: Dim, out: Dim, turns: Dim, turn: Dim) -> Mapping[str, Value]:
    """Return cos and sin of 2 pi j k / n for every result j and term k, taken from a table of n angles."""
    given: dict[str, ast.expr] = {"n": template("f.extent(dim)", dim=turns), "turn": of_dims([turn])}
    given |= {name: reader.place(dim) for name, dim in zip("jkm", (out, along, turn), strict=True)}
    index = reader.add("j * k - n * f.floor(j * k / n)", "place", **given)
    found = dict[str, Value]()
    for name, zeros in _ZEROS.items():
        text = f"f.where({zeros}, 0.0, f.{name}(8.0 * f.atan(1.0) * m / n))"
        table = reader.add(text, name, **given)
        made = template("f.take(table, index, turn)", **given, table=table, index=index)
        found[name] = Value(reader.lines.add(made, name), ((out,), (along,)), frozenset({out, along}))
    return found
