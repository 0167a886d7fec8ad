"""Complex numbers, which a formula has none of: their real and imaginary parts, as rotations of pairs need them, and
Fourier transforms, which are sums of them times sines and cosines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oracles.formula.node import Node
from oracles.reference.dims import Pair, UnreadableError
from oracles.reference.elementwise import hypot, rule
from oracles.reference.lines import of_dims, template
from oracles.reference.maps import single
from oracles.reference.reading import COMPLEX, Complex, Number, Reader, Value

_MOVES = (
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "permute", "t", "transpose", "unsqueeze", "squeeze",
    "expand", "slice", "select", "index_select", "clone", "alias", "detach", "contiguous", "lift_fresh_copy",
    "lift_fresh", "_to_copy", "to", "roll", "flip",
)  # fmt: skip
"""What is the same of both parts."""
Given = Complex | Value | complex | Number
_BY_ROOT = 1
"""Torch's number for a transform that is divided by the root of its length; 2 is by its length, 0 by nothing."""


def _moved(reader: Reader, self: Given, **given: Any) -> Complex:
    own, to = _of(reader, self), {}
    if "dtype" in given:
        to = {"dtype": "torch.float32"}
    move = reader.rules.get(reader.step.op, reader.rules["clone"])
    return Complex(*(None if part is None else move(reader, part, **{**given, **to}) for part in (own.real, own.imag)))


for _name in _MOVES:
    rule(f"{COMPLEX}{_name}")(_moved)


def _of(reader: Reader, given: Given) -> Complex:
    """A number as its parts."""
    if isinstance(given, Complex):
        return given
    if isinstance(given, complex):
        parts = [Value(reader.number(part)) if part else None for part in (given.real, given.imag)]
        return Complex(*parts)
    return Complex(given if isinstance(given, Value) else Value(reader.number(given)), None)


def _sum(reader: Reader, *terms: tuple[str, Sequence[Value | None]]) -> Value | None:
    """The sum of products with their signs, of which those are none that have no part; None where all are."""
    text, given = "", dict[str, Value]()
    for sign, factors in terms:
        there = [each for each in factors if each is not None]
        if len(there) < len(factors):
            continue
        names = ["abcdefgh"[len(given) + at] for at in range(len(there))]
        given |= dict(zip(names, there, strict=True))
        text += f" {sign} {' * '.join(names)}" if text else f"{'-' * (sign == '-')}{' * '.join(names)}"
    return replace(reader.each(text, "part", **given), dtype="torch.float32") if text else None


def _whole(reader: Reader, part: Value | None) -> Value:
    """A part, or 0 where there is none."""
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
    parts = reader.met(_whole(reader, self.real), _whole(reader, self.imag))
    rank = len(reader.shape()) - 1
    wide = [replace(each, axes=((),) * (rank - each.rank) + each.axes) for each in parts]
    found: Value = reader.rules["stack"](reader, wide, -1)
    return found


@rule(f"{COMPLEX}real", f"{COMPLEX}imag")
def _part(reader: Reader, self: Complex) -> Value:
    return _whole(reader, getattr(self, reader.step.op))


@rule(f"{COMPLEX}mul")
def _product(reader: Reader, self: Given, other: Given) -> Complex:
    a, b = _of(reader, self), _of(reader, other)
    real = _sum(reader, ("+", (a.real, b.real)), ("-", (a.imag, b.imag)))
    return Complex(real, _sum(reader, ("+", (a.real, b.imag)), ("+", (a.imag, b.real))))


@rule(f"{COMPLEX}add", f"{COMPLEX}sub")
def _added(reader: Reader, self: Given, other: Given, alpha: Number = 1) -> Complex:
    if alpha != 1:
        raise UnreadableError("adds a multiple of complex numbers: write the product out")
    a, b, sign = _of(reader, self), _of(reader, other), "+" if reader.step.op == "add" else "-"
    parts = (_sum(reader, ("+", (one,)), (sign, (two,))) for one, two in ((a.real, b.real), (a.imag, b.imag)))
    return Complex(*parts)


@rule(f"{COMPLEX}neg", f"{COMPLEX}_conj", f"{COMPLEX}conj_physical")
def _negative(reader: Reader, self: Complex) -> Complex:
    real = _sum(reader, ("-", (self.real,))) if reader.step.op == "neg" else self.real
    return Complex(real, _sum(reader, ("-", (self.imag,))))


@rule(f"{COMPLEX}div.Tensor", f"{COMPLEX}div.Scalar")
def _quotient(reader: Reader, self: Given, other: Given) -> Complex:
    a, b = _of(reader, self), _of(reader, other)
    top, size = a, b.real
    if b.imag is not None:
        top = _product(reader, a, Complex(b.real, _sum(reader, ("-", (b.imag,)))))
        size = _size(reader, b)
    assert size is not None
    return Complex(*(None if each is None else reader.each("a / b", "part", a=each, b=size) for each in top.parts))


def _size(reader: Reader, of: Complex) -> Value:
    """The square of the absolute value."""
    return _whole(reader, _sum(reader, ("+", (of.real, of.real)), ("+", (of.imag, of.imag))))


@rule(f"{COMPLEX}abs")
def _absolute(reader: Reader, self: Complex) -> Value:
    if self.real is not None and self.imag is not None:
        size: Value = hypot(reader, self.real, self.imag)
        return size
    return reader.each("abs(a)", "size", a=_whole(reader, self.real or self.imag))


@rule(f"{COMPLEX}exp")
def _exponential(reader: Reader, self: Complex) -> Complex:
    angle = _whole(reader, self.imag)
    size = None if self.real is None else reader.each("f.exp(a)", "e", a=self.real)
    return Complex(*(
        reader.each(f"f.{name}(a)", name, a=angle) if size is None
        else reader.each(f"e * f.{name}(a)", name, e=size, a=angle) for name in ("cos", "sin")
    ))  # fmt: skip


@rule("_fft_r2c", "_fft_c2c", f"{COMPLEX}_fft_c2c", f"{COMPLEX}_fft_c2r")
def _transformed(reader: Reader, self: Given, dim: Sequence[int], normalization: int, **given: Any) -> Complex | Value:
    """The transform along one axis after the other: of real numbers along the last one first, to such along it last."""
    shape, is_real = reader.shape(), reader.step.op == "_fft_c2r"
    found, axes = _of(reader, self), [each % len(shape) for each in (dim if is_real else dim[::-1])]
    forward = given.get("forward", not is_real)
    for at in axes:
        found, count = _along(reader, found, at, forward, shape[at] if is_real and at == axes[-1] else None)
        if normalization:
            text = "a / f.sqrt(n)" if normalization == _BY_ROOT else "a / n"
            found = Complex(*(each and reader.each(text, "scaled", a=each, n=count) for each in found.parts))
    return _whole(reader, found.real) if is_real else found


def _along(reader: Reader, of: Complex, at: int, forward: bool, real: Pair | None) -> tuple[Complex, Value]:
    """The transform along an axis, and its length; to so many real numbers from the half that they have.

    Kernels calculate it in stages, so that what they err by follows from the whole row that enters, however small its
    own factors are: the sum of magnitudes is added and taken off again, which is room for its roundings."""
    given = reader.met(*(each for each in of.parts if each is not None))
    axes = reader.aligned(given)
    terms = [single(reader, replace(each, axes=axes), at) for each in given]
    along, others = terms[0][1], (*axes[:at], *axes[at + 1 :])
    taken = {along, *(dim for axis in others for dim in axis)}
    [out] = reader.dim(reader.shape()[at]) or (reader.sizes.new(Node("constant", value=1.0), "one"),)
    out = reader.copy(out, taken) if out in taken else out
    whole = along if real is None else out
    turn = reader.copy(whole, {*taken, out})
    given = {"n": template("f.extent(dim)", {"dim": of_dims([whole])}), "turn": of_dims([turn])}
    given |= {"j": reader.place(out), "k": reader.place(along), "m": reader.place(turn)}

    def made(text: str, hint: str, **more: ast.expr) -> ast.expr:
        return reader.lines.add(template(text, {**given, **more}), hint)

    def wave(name: str, zero: str) -> Value:
        table = made(f"f.where({zero}, 0.0, f.{name}(8.0 * f.atan(1.0) * m / n))", name)
        index = made("j * k - n * f.floor(j * k / n)", "place")
        return Value(made("f.take(table, index, turn)", name, table=table, index=index), ((out,), (along,)), both)

    both = frozenset((out, along))
    waves = wave("cos", "(4.0 * m == n) | (4.0 * m == 3.0 * n)"), wave("sin", "(m == 0.0) | (2.0 * m == n)")
    twice = Value(made("f.where((k == 0.0) | (2.0 * k == n), 1.0, 2.0)", "twice"), ((along,),), frozenset((along,)))
    parts, size = dict[bool, Value](), None
    for each, (term, _) in zip((each is of.imag for each in of.parts if each is not None), terms, strict=True):
        term = replace(term, axes=(*others, (along,)))
        parts[each] = term if real is None else reader.each("a * b", "half", a=term, b=twice)
        own = reader.each("abs(a)", "size", a=parts[each])
        size = own if size is None else reader.each("a + b", "size", a=size, b=own)
    size = reader.reduced("total", "size", size, -1, True)

    def summed(*which: tuple[bool, Value, str]) -> Value | None:
        found = [
            (sign, [replace(reader.reduced("dot", "wave", replace(term, axes=(*others, (), (along,))), -1, False, of_turn),
                            axes=(*others, (out,)))])
            for imag, of_turn, sign in which if (term := parts.get(imag)) is not None
        ]
        whole = _sum(reader, *found, ("+", [size]), ("-", [size]))
        return whole and replace(whole, axes=(*others[:at], (out,), *others[at:]))

    cos, sin = waves
    signs = ("+", "-") if forward else ("-", "+")
    found = summed((False, cos, "+"), (True, sin, signs[0]))
    imag = summed((True, cos, "+"), (False, sin, signs[1])) if real is None else None
    return Complex(found, imag), Value(given["n"])
