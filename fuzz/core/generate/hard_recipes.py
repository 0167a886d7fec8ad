"""More recipes for rows: large levels, infinite rows, rounding ties, and rows of different recipes in one tensor."""

from __future__ import annotations

import math

import numpy as np

from fuzz.core.base.dtypes import NUMPY_DTYPE, quantise
from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.recipes import RECIPES, RowSpec, normal, positions, random_signs, recipe, repeated
from oracles.dtypes import FORMATS, NARROW

_TIE_BITS = tuple(1 + FORMATS[name].precision for name in NARROW)
"""The number of significant bits of numbers half-way between neighbours in f16 and bf16."""
_BELOW_LARGEST = 7600 / 65504
"""An element of this share of the largest number has a square far beyond it, while a sum of several stays below."""
_FILLERS = 3
"""The number of elements that bring the mean square of a row to a power of four. Each leaves an error about as small as
the square of the one before."""


def _levels(spec: RowSpec, stream: Stream, levels: tuple[float, ...]) -> Reals:
    """Return one of the levels, chosen for each row and repeated along it."""
    chosen = stream.child("level").integers(spec.rows, 0, len(levels) - 1)
    return repeated(np.asarray(levels)[chosen], spec)


@recipe("a mean of 1e2 to 1e6 with a spread of 1e-3", structured=True)
def _large_mean(spec: RowSpec, stream: Stream) -> Reals:
    top, scale = max(1e4, spec.form.max / 4.0), spec.scale(1e4)
    means = tuple(scale * level for level in (1e2, 1e3, 1e4, 1e5, 1e6) if level <= top)
    return _levels(spec, stream, means) + normal(spec, stream) * spec.spread(1e-3, means[0])


@recipe(
    "elements about 1e9, 1e15, 1e18 and 1.9e19, whose square overflows f32, or such as in f16 255 and 7600",
    structured=True,
)
def _magnitudes(spec: RowSpec, stream: Stream) -> Reals:
    largest = spec.form.max
    usual = tuple(level for level in (1e9, 1e15, 1e18, 1.9e19) if level < largest)
    levels = usual or (math.floor(math.sqrt(largest)), _BELOW_LARGEST * largest)
    wobble = 1.0 + stream.child("wobble").uniform(spec.size) * max(1 / 64, 4.0 * spec.form.u)
    return _levels(spec, stream, levels) * wobble * random_signs(spec, stream)


@recipe("some rows all minus infinity", structured=True)
def _infinite_rows(spec: RowSpec, stream: Stream) -> Reals:
    dead = repeated(stream.child("which").integers(spec.rows, 0, 1), spec) > 0
    return np.where(dead, -math.inf, normal(spec, stream))


@recipe("some rows all negative zero", structured=True)
def _negative_zero_rows(spec: RowSpec, stream: Stream) -> Reals:
    dead = repeated(stream.child("which").integers(spec.rows, 0, 1), spec) > 0
    return np.where(dead, -0.0, normal(spec, stream))


@recipe("one element of each row, all others zero", structured=True)
def _one_hot(spec: RowSpec, stream: Stream) -> Reals:
    values = np.zeros((spec.rows, spec.n))
    values[np.arange(spec.rows), positions(spec, stream)] = stream.child("size").normal(spec.rows) + 6.0
    return values


@recipe("ones", structured=True)
def _ones(spec: RowSpec, stream: Stream) -> Reals:
    return np.ones(spec.size)


@recipe(
    "mean square a power of four, elements half-way between neighbours in f16 or bf16, nothing added to squares",
    structured=True,
    unscaled=True,
)
def _ties(spec: RowSpec, stream: Stream) -> Reals:
    """Return rows whose normalised elements are rounding ties. The root mean square of each row is a power of two, so a
    normalised element has the significand of the element itself. That is a tie in a narrower output dtype and, after
    multiplication by a weight of 1.5, in the same dtype."""
    rows, n = spec.rows, spec.n
    bits = stream.child("bits").integers(rows, 0, len(_TIE_BITS) - 1)
    steps = np.ldexp(1.0, np.asarray(_TIE_BITS)[bits])[:, None]
    odd = np.floor(stream.child("level").uniform(spec.size).reshape(rows, n) * steps / 4.0) * 2.0 + 1.0
    values: Reals = random_signs(spec, stream).reshape(rows, n) * odd / steps
    if n > _FILLERS:
        # The elements are whole numbers, so that the sum is exact in any order.
        rest = n - (odd[:, :-_FILLERS] ** 2).sum(axis=1) / steps[:, 0] ** 2
        for column in range(n - _FILLERS, n):
            values[:, column] = _root_below(rest, spec.dtype)
            rest = rest - values[:, column] ** 2
    powers = np.ldexp(1.0, stream.child("power").integers(rows, -3, 3))
    return np.clip(values * powers[:, None], -spec.form.max, spec.form.max)


def _root_below(squares: Reals, dtype: str) -> Reals:
    """Return the largest numbers of the dtype at or below the square roots, so a rest is left for the next filler."""
    held = quantise(np.sqrt(np.maximum(squares, 0.0)), dtype)
    wide = held.astype(np.float64)
    below = np.nextafter(held, NUMPY_DTYPE[dtype].type(0)).astype(np.float64)
    return np.where(wide * wide > squares, below, wide)


_MIXED = (
    "normal", "zero_rows", "spike", "row_scales", "near_threshold", "far_below_threshold", "subnormal", "large_mean",
    "magnitudes", "constant", "near_overflow", "negative_zero_rows", "one_nan", "infinite_rows", "alternating",
)  # fmt: skip
_KINDS = 4


_SWITCHES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0)
"""Arguments at which kernels of activations switch formulas: clamps at 3 and 6, softplus and similar functions at 8 to
20, erf and tanh at 2 to 10."""
_NEAREST = -14
"""Values near a number differ from it by 2^-14 to 2^-1 of it. At the near end that is not more than the distance
between neighbours in f16 and bf16."""


@recipe(
    "numbers that the op compares elements with, or 1/2 to 20, their neighbours, what is near, and normal ones",
    structured=True,
)
def _near_numbers(spec: RowSpec, stream: Stream) -> Reals:
    size, form = spec.size, spec.form
    numbers = [each for each in spec.compared if abs(each) <= form.max] or [*_SWITCHES, *(-each for each in _SWITCHES)]
    number = np.take(numbers, stream.child("number").integers(size, 0, len(numbers) - 1))
    step = np.where(number == 0.0, form.eta, np.abs(number) * form.u)
    off = np.ldexp(np.where(number == 0.0, 1.0, number), stream.child("near").integers(size, _NEAREST, -1))
    off *= random_signs(spec, stream)
    kind = stream.child("kind").integers(size, 0, 3)
    neighbours = number + step * stream.child("step").integers(size, -3, 3)
    return np.choose(kind, [number, neighbours, number + off, normal(spec, stream)])


@recipe("rows of up to four recipes side by side", structured=True)
def _mixed_rows(spec: RowSpec, stream: Stream) -> Reals:
    kinds = [_MIXED[i] for i in stream.child("kinds").integers(_KINDS, 0, len(_MIXED) - 1).tolist()]
    chosen = stream.child("chosen").integers(spec.rows, 0, _KINDS - 1)
    chosen[:_KINDS] = np.arange(_KINDS)[: spec.rows]
    of_rows = np.array(kinds)[chosen]
    mixed = np.empty((spec.rows, spec.n))
    for kind in dict.fromkeys(of_rows.tolist()):  # skip kinds that no row has
        values = RECIPES[kind].fill(spec, stream.child(kind)).reshape(spec.rows, spec.n)
        np.copyto(mixed, values, where=(of_rows == kind)[:, None])
    return mixed
