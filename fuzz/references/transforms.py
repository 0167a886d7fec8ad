"""Fourier transforms: sums of complex numbers times sines and cosines, along one axis after the other. Kernels
calculate them in stages, so that errors depend on the whole row even where sines and cosines are small. The formula
adds the sum of the row's magnitudes and subtracts it again, so that the budget includes those errors."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.complexes import Given, parts_of, summed, whole
from fuzz.references.dims import Dim, Pair
from fuzz.references.elementwise import rule
from fuzz.references.lines import of_dims, template
from fuzz.references.maps import single
from fuzz.references.reading import Reader
from fuzz.references.scope import COMPLEX, Complex, Value
from oracles.formula.node import Node

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
                made = reader.reduced("dot", "wave", wide, -1, False, waves[wave])
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
