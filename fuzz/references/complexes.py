"""Complex numbers as pairs of real and imaginary parts, since formulas have none; rotations of pairs use them.

Fourier transforms are sums of complex numbers times sines and cosines, along one axis after the other. Kernels
calculate them in stages, so that errors depend on the whole row even where sines and cosines are small. The formula
adds the sum of the row's magnitudes and subtracts it again, so that the budget includes those errors.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Dim, Pair, UnreadableError
from fuzz.references.elementwise import rule
from fuzz.references.lines import of_dims, template
from fuzz.references.maps import single
from fuzz.references.products import product
from fuzz.references.reading import Reader
from fuzz.references.scope import COMPLEX, Complex, Number, Value
from fuzz.references.transforms import WAVE
from oracles.formula.node import Node

_MOVES = (
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "permute", "t", "transpose", "unsqueeze", "squeeze",
    "expand", "slice", "select", "index_select", "clone", "alias", "detach", "contiguous", "lift_fresh_copy",
    "lift_fresh", "_to_copy", "to", "roll", "flip",
)  # fmt: skip
"""Operations that treat both parts alike."""
Given = Complex | Value | complex | Number


def _moved(reader: Reader, self: Given, **given: Any) -> Complex:
    own, to = parts_of(reader, self), {}
    if "dtype" in given:
        to = {"dtype": "torch.float32"}
    move = reader.rules.get(reader.step.op, reader.rules["clone"])
    return Complex(*(None if part is None else move(reader, part, **{**given, **to}) for part in (own.real, own.imag)))


for _name in _MOVES:
    rule(f"{COMPLEX}{_name}")(_moved)


def parts_of(reader: Reader, given: Given) -> Complex:
    """Return a number as a pair of real and imaginary part."""
    if isinstance(given, Complex):
        return given
    if isinstance(given, complex):
        parts = [Value(reader.number(part)) if part else None for part in (given.real, given.imag)]
        return Complex(*parts)
    return Complex(given if isinstance(given, Value) else Value(reader.number(given)), None)


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


@rule("complex")
def _complex(reader: Reader, real: Value, imag: Value) -> Complex:
    return Complex(*reader.met(real, imag))


@rule("polar")
def _polar(reader: Reader, abs: Value, angle: Value) -> Complex:  # noqa: A002 (torch's own names)
    return Complex(*(reader.each(f"r * f.{name}(a)", name, r=abs, a=angle) for name in ("cos", "sin")))


@rule("view_as_complex")
def _viewed(reader: Reader, self: Value) -> Complex:
    return Complex(*(reader.rules["select"](reader, self, self.rank - 1, place) for place in (0, 1)))


@rule(f"{COMPLEX}view_as_real")
def _as_pairs(reader: Reader, self: Complex) -> Value:
    parts = reader.met(whole(reader, self.real), whole(reader, self.imag))
    rank = len(reader.shape()) - 1
    wide = [replace(each, axes=((),) * (rank - each.rank) + each.axes) for each in parts]
    found: Value = reader.rules["stack"](reader, wide, -1)
    return found


@rule(f"{COMPLEX}real", f"{COMPLEX}imag")
def _part(reader: Reader, self: Complex) -> Value:
    return whole(reader, getattr(self, reader.step.op))


@rule(f"{COMPLEX}mul")
def _product(reader: Reader, self: Given, other: Given) -> Complex:
    a, b = parts_of(reader, self), parts_of(reader, other)
    real = summed(reader, ("+", (a.real, b.real)), ("-", (a.imag, b.imag)))
    return Complex(real, summed(reader, ("+", (a.real, b.imag)), ("+", (a.imag, b.real))))


@rule(f"{COMPLEX}mm", f"{COMPLEX}bmm", f"{COMPLEX}matmul")
def _matrices(reader: Reader, self: Given, other: Given | None = None, **given: Given) -> Complex:
    a, b = parts_of(reader, self), parts_of(reader, given["mat2"] if other is None else other)
    made = [[x and y and product(reader, x, y) for y in b.parts] for x in a.parts]
    (plain, of_b), (of_a, both) = made
    return Complex(summed(reader, ("+", (plain,)), ("-", (both,))), summed(reader, ("+", (of_b,)), ("+", (of_a,))))


@rule(f"{COMPLEX}add", f"{COMPLEX}sub")
def _added(reader: Reader, self: Given, other: Given, alpha: Number = 1) -> Complex:
    if alpha != 1:
        raise UnreadableError("adds a multiple of complex numbers: write the product out")
    a, b, sign = parts_of(reader, self), parts_of(reader, other), "+" if reader.step.op == "add" else "-"
    parts = (summed(reader, ("+", (one,)), (sign, (two,))) for one, two in ((a.real, b.real), (a.imag, b.imag)))
    return Complex(*parts)


@rule(f"{COMPLEX}neg", f"{COMPLEX}_conj", f"{COMPLEX}conj_physical")
def _negative(reader: Reader, self: Complex) -> Complex:
    real = summed(reader, ("-", (self.real,))) if reader.step.op == "neg" else self.real
    return Complex(real, summed(reader, ("-", (self.imag,))))


@rule(f"{COMPLEX}div.Tensor", f"{COMPLEX}div.Scalar")
def _quotient(reader: Reader, self: Given, other: Given) -> Complex:
    a, b = parts_of(reader, self), parts_of(reader, other)
    top, size = a, b.real
    if b.imag is not None:
        top = _product(reader, a, Complex(b.real, summed(reader, ("-", (b.imag,)))))
        size = _size(reader, b)
    assert size is not None
    return Complex(*(None if each is None else reader.each("a / b", "part", a=each, b=size) for each in top.parts))


def _size(reader: Reader, of: Complex) -> Value:
    """Return the square of the absolute value."""
    return whole(reader, summed(reader, ("+", (of.real, of.real)), ("+", (of.imag, of.imag))))


@rule(f"{COMPLEX}abs")
def _absolute(reader: Reader, self: Complex) -> Value:
    if self.real is not None and self.imag is not None:
        return reader.each("f.hypot(a, b)", "size", a=self.real, b=self.imag)
    return reader.each("abs(a)", "size", a=whole(reader, self.real or self.imag))


@rule(f"{COMPLEX}angle")
def _angle(reader: Reader, self: Complex) -> Value:
    return reader.each("f.atan2(b, a)", "angle", a=whole(reader, self.real), b=whole(reader, self.imag))


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
    n = template("f.extent(dim)", {"dim": of_dims([turns])})
    if to_real:  # all terms except the ends count twice
        text = "f.where((k == 0.0) | (2.0 * k == n), 1.0, 2.0)"
        twice = reader.lines.add(template(text, {"k": reader.place(along), "n": n}), "twice")
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
    given: dict[str, ast.expr] = {"n": template("f.extent(dim)", {"dim": of_dims([turns])}), "turn": of_dims([turn])}
    given |= {name: reader.place(dim) for name, dim in zip("jkm", (out, along, turn), strict=True)}
    index = reader.lines.add(template("j * k - n * f.floor(j * k / n)", given), "place")
    found = dict[str, Value]()
    for name, zeros in _ZEROS.items():
        text = f"f.where({zeros}, 0.0, f.{name}(8.0 * f.atan(1.0) * m / n))"
        table = reader.lines.add(template(text, given), name)
        made = template("f.take(table, index, turn)", {**given, "table": table, "index": index})
        found[name] = Value(reader.lines.add(made, name), ((out,), (along,)), frozenset({out, along}))
    return found
