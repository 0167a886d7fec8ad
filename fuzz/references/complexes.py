"""Complex numbers as pairs of real and imaginary parts, since formulas have none; rotations of pairs use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import UnreadableError
from fuzz.references.elementwise import hypot, rule
from fuzz.references.reading import Reader
from fuzz.references.scope import COMPLEX, Complex, Number, Value

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
        size: Value = hypot(reader, self.real, self.imag)
        return size
    return reader.each("abs(a)", "size", a=whole(reader, self.real or self.imag))


@rule(f"{COMPLEX}exp")
def _exponential(reader: Reader, self: Complex) -> Complex:
    angle = whole(reader, self.imag)
    size = None if self.real is None else reader.each("f.exp(a)", "e", a=self.real)
    return Complex(*(
        reader.each(f"f.{name}(a)", name, a=angle) if size is None
        else reader.each(f"e * f.{name}(a)", name, e=size, a=angle) for name in ("cos", "sin")
    ))  # fmt: skip
