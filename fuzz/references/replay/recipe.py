"""How the inputs of a replay's case are drawn: all that is needed to draw them again, without the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.dtypes import from_bits, quantise
from fuzz.core.base.stream import Stream
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import made_so
from fuzz.core.generate.recipes import Recipe, RowSpec
from oracles.dtypes import FORMATS
from oracles.operand import Kept

_TIED = 6
"""The most numbers that the floats of a case are taken from, apart from marks and neighbours."""
_NEAR = 8
"""The magnitude up to which one draw in four takes integers, since others are mostly large in 32 bits."""


@dataclass(frozen=True)
class Span:
    """The range from which the integers of a tensor are drawn."""

    low: int
    high: int | None = None
    """The largest integer; None for the last place along the shortest dimension of a case."""
    skips_zero: bool = False

    @property
    def recipe(self) -> str:
        """The name of the range in a case's recipes."""
        return "places" if self.high is None else f"integers from {self.low} to {self.high}"

    def draw(self, stream: Stream, shape: tuple[int, ...], places: int) -> NDArray[np.int64]:
        """Return integers of that shape: uniform, close to 0, of all magnitudes, or near the ends of the range and
        powers of two. One tensor in four has only one or two numbers, each of them near an end or a power of two."""
        count, high = math.prod(shape), max(places - 1, 0) if self.high is None else self.high
        low = min(self.low, high)
        found = stream.integers(count, low, high)
        if self.high is not None:
            sizes = stream.child("sizes").integers(count, 0, (high - low).bit_length())
            near = stream.child("near").integers(count, max(low, min(-_NEAR, high)), min(high, max(_NEAR, low)))
            marks = _marks(low, high)
            ends = marks[stream.child("ends").integers(count, 0, len(marks) - 1)]
            how = stream.child("how").integers(count, 0, 7)
            found = np.select([how < 2, how < 4, how < 6], [found, np.clip(found >> sizes, low, high), near], ends)
            if stream.child("few").integers(1, 0, 3)[0] == 0 and count:  # sums of one number overflow first
                several = stream.child("several").integers(1, 1, 2)[0]
                found = ends[stream.child("which").integers(count, 0, several - 1) % count]
            if self.skips_zero:
                found = np.where(found == 0, 1 if high > 0 else -1, found)
        return found.reshape(shape)


def _marks(low: int, high: int) -> NDArray[np.int64]:
    """Return the numbers of a range at which integers wrap, saturate or change sign: powers of two of either sign with
    their neighbours, and, as often as all of these, the ends."""
    powers = (sign * 2**power + step for power in range(64) for sign in (1, -1) for step in (-1, 0, 1))
    inside = sorted({each for each in powers if low <= each <= high})
    ends = [low, low, min(low + 1, high), max(high - 1, low), high, high]
    return np.array([*inside, *ends * max(len(inside) // len(ends), 1)])


@dataclass(frozen=True)
class DrawnTensor:
    """How one tensor is drawn: floats by a recipe of a menu, integers from a span."""

    shape: tuple[int, ...]
    menu: str = ""
    recipe: str = ""
    span: Span | None = None
    places: int = 0
    """The places along the shortest dimension of the case."""
    dtype: str = ""
    """The dtype of integers, as NumPy spells it."""
    kept: Kept = ()

    def draw(self, stream: Stream, dtype: str) -> NDArray[Any]:
        """Return the values: integers, or floats that have this dtype, as float64."""
        if self.span is not None:
            drawn = self.span.draw(stream, self.shape, self.places)
            return made_so(self.kept, drawn.astype(self.dtype), self.dtype)
        rows, n = (math.prod(self.shape[:-1]), self.shape[-1]) if self.shape else (1, 1)
        recipe = MENUS[self.menu].recipes[self.recipe]
        assert isinstance(recipe, Recipe), "only these are drawn from"
        values = recipe.draw(RowSpec(rows, n, dtype), stream)
        return made_so(self.kept, values.reshape(self.shape), dtype).astype(np.float64)

    @property
    def words(self) -> str:
        """The name of the recipe, or the span in words."""
        return self.recipe if self.span is None else self.span.recipe


@dataclass(frozen=True)
class ReplayRecipe:
    """How the inputs of a case are drawn."""

    key: int
    """The key of the stream that they are drawn from; without tensors, the seed of inputs that come with a task."""
    dtype: str
    """The dtype in which a kernel gets the floats."""
    tensors: Mapping[str, DrawnTensor] = field(default_factory=dict)
    marks: Sequence[float] = ()
    """The numbers with which the reference compares elements."""
    are_tied: bool = False
    """Whether the floats of all tensors are taken from a few numbers, the marks and their neighbours among them."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the inputs by name, floats as float64."""
        stream = Stream(self.key)
        found = {name: each.draw(stream.child(name), self.dtype) for name, each in self.tensors.items()}
        floats = {name: each for name, each in found.items() if each.dtype.kind == "f" and each.size}
        if not (self.are_tied and floats):
            return found
        every = np.concatenate([each.reshape(-1) for each in floats.values()])
        some = every[
            stream.child("some").integers(int(stream.child("few").integers(1, 1, _TIED)[0]), 0, every.size - 1)
        ]
        plain = np.concatenate([some, self.marks])
        with np.errstate(all="ignore"):
            near = plain + np.abs(plain) * 2.0 * FORMATS[self.dtype].u * np.where(np.arange(plain.size) % 2, 1.0, -1.0)
        pool = rounded(np.concatenate([plain, plain, near]), self.dtype).astype(np.float64)
        for name, each in floats.items():
            tied = pool[stream.child(f"tied {name}").integers(each.size, 0, pool.size - 1)].reshape(each.shape)
            found[name] = made_so(self.tensors[name].kept, tied, self.dtype).astype(np.float64)
        return found


def given(arrays: Mapping[str, NDArray[Any]], dtype: str) -> dict[str, NDArray[Any]]:
    """Return inputs as a kernel gets them, with floats in this dtype."""
    return {name: rounded(each, dtype) if each.dtype.kind == "f" else each for name, each in arrays.items()}


def rounded(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return values of float64 rounded to a dtype."""
    return from_bits(quantise(values, dtype).tobytes(), dtype, values.shape).copy()
