"""Recipes: named ways to draw a tensor's values. Recipes for rows are here and in neighbouring modules, recipes for
factors in `menus`. A recipe fills `rows` x `n` values; n is the dimension of the reduction. The rounding errors of
`structured` recipes (constant, monotone or spiked rows) are not random: only the worst-case budget is sound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.dtypes import quantise
from fuzz.core.base.stream import Reals, Stream, Words
from oracles.dtypes import FORMATS, SINGLE, Format


@dataclass(frozen=True)
class RowSpec:
    """The input of a recipe: shape, dtype, and facts about the op."""

    rows: int
    n: int
    dtype: str
    threshold: float = 0.0
    """The value of the parameter that the op adds to mean squares, or 0 if it has none."""
    compared: tuple[float, ...] = ()
    """The numbers with which the op's formula compares elements of the input."""

    @property
    def size(self) -> int:
        return self.rows * self.n

    @property
    def form(self) -> Format:
        """The format of the values. Its range and precision decide how large the values are and how far apart."""
        return FORMATS[self.dtype]

    @property
    def summed(self) -> Format:
        """The format in which kernels add squares of the values: f32, or their own format if that is more precise."""
        return max(SINGLE, self.form, key=lambda each: each.precision)

    def powers(self, low: int, high: int) -> tuple[int, int]:
        """Return the lowest and highest exponent of powers of two to draw: `low` and `high`, limited to the format."""
        return min(max(low, self.form.least), self.form.emax // 2), min(high, self.form.emax)

    def scale(self, largest: float) -> float:
        """Return the factor that brings values up to `largest` into the format's range, or 1 if they are within it."""
        return min(1.0, self.form.max / largest)

    def spread(self, usual: float, level: float) -> float:
        """Return the spread of values around `level`: `usual`, or a unit roundoff of `level` if less would not show."""
        return max(usual, level * self.form.u)


Fill = Callable[[RowSpec, Stream], Reals]


@dataclass(frozen=True)
class StreamRequest:
    """One request of a recipe to a child of its stream, for random words or for normal numbers."""

    label: str
    normal: bool
    each: str
    """How many numbers are requested: one per element ('size'), one per row ('rows'), or one ('once')."""

    def count(self, spec: RowSpec) -> int:
        """Return how many numbers are requested."""
        return spec.size if self.each == "size" else spec.rows if self.each == "rows" else 1


@dataclass(frozen=True)
class Listener(Stream):
    """A stream that records the requests to its children."""

    heard: dict[tuple[str, bool], int] = field(default_factory=dict)
    label: str = ""

    def child(self, label: str) -> Stream:
        stream = super().child(label)
        return stream if self.label else Listener(stream.key, heard=self.heard, label=label)

    def words(self, count: int) -> Words:
        self.heard[self.label, False] = count
        return super().words(count)

    def normal(self, count: int) -> Reals:
        self.heard[self.label, True] = count
        return Stream(self.key).normal(count)


_HEARD = {15: "size", 3: "rows", 1: "once"}


@dataclass(frozen=True)
class Recipe:
    """A named way to draw values."""

    name: str
    summary: str
    structured: bool
    fill: Fill
    unscaled: bool = False
    """Whether parameters that are scaled along with the inputs must be 0 if the first input has this recipe."""
    by_row: bool = False
    """Whether rows differ so much in size that a sum over rows loses terms of small ones, always in one direction."""

    def draw(self, spec: RowSpec, stream: Stream) -> NDArray[np.generic]:
        """Return values of shape (rows, n) in the storage dtype, rounded to nearest even. Finite values stay finite."""
        shape = spec.rows, spec.n
        values = self.fill(spec, stream).reshape(shape) if spec.size else np.zeros(shape)
        return quantise(values, spec.dtype)

    @cached_property
    def asks(self) -> tuple[StreamRequest, ...]:
        """The requests of the recipe to its stream, recorded for three rows of five elements. They can be drawn ahead,
        together with those of other tensors. Numbers that are not listed are drawn when the recipe asks for them."""
        listener = Listener(0)
        self.fill(RowSpec(3, 5, SINGLE.name, 1.0), listener)
        heard = listener.heard.items()
        return tuple(StreamRequest(label, normal, _HEARD[count]) for (label, normal), count in heard if count in _HEARD)


RECIPES: dict[str, Recipe] = {}
"""The recipes for rows by name, first those of this module; see `fuzz.core.generate.menus.recipes`."""


def recipe(
    summary: str,
    *,
    structured: bool,
    unscaled: bool = False,
    by_row: bool = False,
    registry: dict[str, Recipe] = RECIPES,
) -> Callable[[Fill], Fill]:
    """Register a function as a recipe, under its own name without the underscores at its ends."""

    def register(fill: Fill) -> Fill:
        name = fill.__name__.strip("_")
        registry[name] = Recipe(name, summary, structured, fill, unscaled, by_row)
        return fill

    return register


def repeated(values: NDArray[np.generic], spec: RowSpec) -> Reals:
    """Return one value per row, repeated along n, shape (rows * n,)."""
    return np.repeat(values.astype(np.float64), spec.n)


def normal(spec: RowSpec, stream: Stream) -> Reals:
    """Return standard normal values, shape (rows * n,)."""
    return stream.child("normal").normal(spec.size)


def random_signs(spec: RowSpec, stream: Stream) -> Reals:
    """Return 1 or -1 for each element, shape (rows * n,)."""
    return 1.0 - 2.0 * stream.child("sign").integers(spec.size, 0, 1).astype(np.float64)


def _row_exponents(spec: RowSpec, stream: Stream) -> NDArray[np.int64]:
    """Return one exponent of two per row. The exponents cover most of the format's range, including numbers whose
    squares overflow or underflow."""
    own, summed = spec.form, spec.summed
    low, high = max(summed.least // 2, own.emin * 6 // 7), min(summed.emax // 2, own.emax * 4 // 5)
    return stream.child("exponent").integers(spec.rows, low, high)


def _with_mean_square(spec: RowSpec, stream: Stream, mean_square: Reals) -> Reals:
    """Return normal rows whose mean square is about the given one."""
    return normal(spec, stream) * repeated(np.sqrt(mean_square), spec)


def positions(spec: RowSpec, stream: Stream) -> NDArray[np.int64]:
    """Return one column per row: the first, the last, one of the last 64 (the tail of any vector width), or any."""
    kind = stream.child("position class").integers(spec.rows, 0, 3)
    anywhere = stream.child("position").integers(spec.rows, 0, spec.n - 1)
    near_end = spec.n - 1 - stream.child("near end").integers(spec.rows, 0, min(spec.n, 64) - 1)
    return np.where(kind == 3, anywhere, np.where(kind == 2, near_end, kind * (spec.n - 1)))


def _place(values: Reals, spec: RowSpec, columns: NDArray[np.int64], what: Reals) -> Reals:
    placed = values.reshape(spec.rows, spec.n).copy()
    placed[np.arange(spec.rows), columns] = what
    return placed


_ORDINARY = 7
"""The number of powers of two, 2^-3 to 2^3. From row to row the exponent moves by three, so that two neighbouring rows
are a small and a large one."""


def _ordinary(spec: RowSpec, stream: Stream) -> Reals:
    """Return one size per row, from 1/8 to 16, uniform within each power of two."""
    powers = (stream.child("power").integers(1, 0, _ORDINARY - 1) + 3 * np.arange(spec.rows)) % _ORDINARY - 3
    sizes: Reals = np.ldexp(1.0 + stream.child("level").uniform(spec.rows), powers)
    return sizes


@recipe("the same number along each row, 1/8 to 16", structured=True)
def _constant(spec: RowSpec, stream: Stream) -> Reals:
    return repeated(_ordinary(spec, stream), spec)


@recipe("standard normal", structured=False)
def _normal_(spec: RowSpec, stream: Stream) -> Reals:
    return normal(spec, stream)


@recipe("uniform, of either sign, up to a number that is each row's own, 1/8 to 16", structured=False)
def _uniform(spec: RowSpec, stream: Stream) -> Reals:
    return (stream.child("uniform").uniform(spec.size) * 2.0 - 1.0) * repeated(_ordinary(spec, stream), spec)


@recipe("plus and minus the same number in turn, 1/8 to 16", structured=True)
def _alternating(spec: RowSpec, stream: Stream) -> Reals:
    signs = 1.0 - 2.0 * (np.arange(spec.size) % spec.n % 2)
    levels: Reals = signs * _constant(spec, stream)
    return levels


@recipe("a ramp along each row, up to 1/8 to 16", structured=True)
def _monotone(spec: RowSpec, stream: Stream) -> Reals:
    ramp = (np.arange(spec.size) % spec.n + 1.0) / spec.n
    values: Reals = ramp * repeated(_ordinary(spec, stream), spec)
    return values


@recipe("powers of two of either sign, 2**-8 to 2**8", structured=True)
def _powers_of_two(spec: RowSpec, stream: Stream) -> Reals:
    powers: Reals = np.ldexp(random_signs(spec, stream), stream.child("power").integers(spec.size, *spec.powers(-8, 8)))
    return powers


@recipe(
    "a different power of two per row, 2**-75 to 2**63, or most of those that the dtype has",
    structured=False,
    by_row=True,
)
def _row_scales(spec: RowSpec, stream: Stream) -> Reals:
    return normal(spec, stream) * repeated(np.ldexp(1.0, _row_exponents(spec, stream)), spec)


@recipe("one huge element per row: first, last, in the tail, or anywhere", structured=True)
def _spike(spec: RowSpec, stream: Stream) -> Reals:
    sizes = np.ldexp(1.0, stream.child("size").integers(spec.rows, *spec.powers(4, 40)))
    return _place(normal(spec, stream), spec, positions(spec, stream), sizes)


@recipe("some rows all zero, of either sign", structured=False)
def _zero_rows(spec: RowSpec, stream: Stream) -> Reals:
    factor = np.choose(stream.child("which").integers(spec.rows, 0, 2), [1.0, 0.0, -0.0])
    return normal(spec, stream) * repeated(factor, spec)


@recipe(
    "mean square between 1/100 and 100 times a parameter that is added to it (1e-6 without)",
    structured=False,
    by_row=True,
)
def _near_threshold(spec: RowSpec, stream: Stream) -> Reals:
    steps = stream.child("ratio").integers(spec.rows, -7, 7)  # powers of two need no pow of a library
    return _with_mean_square(spec, stream, np.ldexp(spec.threshold or 1e-6, steps))


@recipe(
    "mean square a million times below a parameter that is added to it, and less, or the smallest numbers",
    structured=False,
    by_row=True,
)
def _far_below_threshold(spec: RowSpec, stream: Stream) -> Reals:
    steps = stream.child("ratio").integers(spec.rows, -40, -20)
    shown = 2.0**20 * (16.0 * spec.form.eta) ** 2  # in every dtype the largest of these rows are not all zero
    return _with_mean_square(spec, stream, np.ldexp(max(spec.threshold or 1e-6, shown), steps))


@recipe("subnormal numbers and the smallest normal ones", structured=False)
def _subnormal(spec: RowSpec, stream: Stream) -> Reals:
    return normal(spec, stream) * (spec.form.tiny / 4.0)


@recipe("sum of squares around the overflow threshold, or elements around the largest number", structured=False)
def _near_overflow(spec: RowSpec, stream: Stream) -> Reals:
    largest = spec.form.max
    steps = np.ldexp(1.0, stream.child("ratio").integers(spec.rows, -2, 2))
    level = min(largest / 4.0, math.sqrt(spec.summed.max / spec.n))
    return np.clip(normal(spec, stream) * repeated(steps * level, spec), -largest, largest)


@recipe("a large mean with a small spread", structured=True)
def _offset_mean(spec: RowSpec, stream: Stream) -> Reals:
    low, high = spec.powers(6, 14)
    mean = np.ldexp(1.0, stream.child("mean").integers(spec.rows, low, high))
    return normal(spec, stream) * spec.spread(1 / 64, 2.0**low) + repeated(mean, spec)


@recipe("any finite number of the dtype, equally likely", structured=True)
def _ordinal(spec: RowSpec, stream: Stream) -> Reals:
    mantissa = 1.0 + stream.child("mantissa").uniform(spec.size)
    exponent = stream.child("exponent").integers(spec.size, spec.form.least, spec.form.emax)
    return np.ldexp(random_signs(spec, stream) * mantissa, exponent)


@recipe("normal with one NaN in one row: first, last, in the tail, or anywhere", structured=False)
def _one_nan(spec: RowSpec, stream: Stream) -> Reals:
    return _one(spec, stream, math.nan)


@recipe("normal with one infinity in one row: first, last, in the tail, or anywhere", structured=False)
def _one_inf(spec: RowSpec, stream: Stream) -> Reals:
    sign = 1 - 2 * int(stream.child("sign").integers(1, 0, 1)[0])
    return _one(spec, stream, sign * math.inf)


def _one(spec: RowSpec, stream: Stream, what: float) -> Reals:
    values = normal(spec, stream).reshape(spec.rows, spec.n)
    if spec.size:
        row = int(stream.child("row").integers(1, 0, spec.rows - 1)[0])
        values[row, positions(spec, stream)[row]] = what
    return values
