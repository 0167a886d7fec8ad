"""The ranges of a replay's inputs: what integers are drawn from, and what was never drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.stream import Stream
from fuzz.references.asked import Shown

_EXACT = 2**53
"""Outputs are compared in float64, which has every integer up to this one."""
_NEAR = 8
"""One draw in four is of the integers up to this size, which are few in a dtype of 32 bits."""


@dataclass(frozen=True)
class Span:
    """What the integers of a tensor are drawn from."""

    low: int
    high: int | None = None
    """None: the last place along the shortest dimension of a case."""
    skips_zero: bool = False

    @property
    def recipe(self) -> str:
        """What a case calls it."""
        return "places" if self.high is None else f"integers from {self.low} to {self.high}"

    def draw(self, stream: Stream, shape: tuple[int, ...], places: int) -> NDArray[np.int64]:
        """Return integers of that shape: spread evenly, close to 0, of all sizes alike, or the ends."""
        count, high = math.prod(shape), max(places - 1, 0) if self.high is None else self.high
        low = min(self.low, high)
        found = stream.integers(count, low, high)
        if self.high is not None:
            sizes = stream.child("sizes").integers(count, 0, (high - low).bit_length())
            near = stream.child("near").integers(count, max(low, min(-_NEAR, high)), min(high, max(_NEAR, low)))
            ends = np.array([low, high])[stream.child("ends").integers(count, 0, 1)]
            how = stream.child("how").integers(count, 0, 7)
            found = np.select([how < 3, how < 5, how < 7], [found, np.clip(found >> sizes, low, high), near], ends)
            if self.skips_zero:
                found = np.where(found == 0, 1 if high > 0 else -1, found)
        return found.reshape(shape)


def spans_of(dtype: str, shown: Shown | None) -> Sequence[Span]:
    """Return what a tensor of integers may be drawn from, the widest first, given what its examples show. Integers of 8
    and 16 bits are numbers, and wider ones places, unless examples show what is no place; none is below 0 where no
    example is."""
    places = [Span(0), Span(1)]
    if dtype == "bool" or (shown is not None and (shown.low, shown.high) == (0, 1)):
        return [Span(0, 1)]  # flags: nobody said what a 2 means
    if np.iinfo(dtype).bits > 16 and (shown is None or shown.are_places):
        return places
    low, high = max(int(np.iinfo(dtype).min), -_EXACT), min(int(np.iinfo(dtype).max), _EXACT)
    if shown is None:
        return [Span(low, high), Span(low, high, skips_zero=True), *places]
    low = low if shown.low < 0 else min(shown.low, 0)
    ends = [(low, high), (shown.low, shown.high)]
    return [*(Span(*each, skips_zero=skips) for each in ends for skips in (False, True)), *places]


def accepted(spans: Sequence[Span], refusals: Callable[[Span], int]) -> Span:
    """Return the first of the spans that a reference raises for least often."""
    fewest: tuple[int, Span] | None = None
    for each in spans:
        count = refusals(each) if len(spans) > 1 else 0
        if fewest is None or count < fewest[0]:
            fewest = count, each
        if not count:
            break
    assert fewest is not None
    return fewest[1]


@dataclass
class Came:
    """What has been drawn so far."""

    dtypes: set[str] = field(default_factory=set)
    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, np.dtype[Any]] = field(default_factory=dict)
    nan: bool = False
    infinite: bool = False
    magnitudes: tuple[float, float] = (math.inf, 0.0)
    extents: tuple[int, int] = (1 << 62, 0)

    def note(self, arrays: Mapping[str, NDArray[Any]], dtype: str) -> None:
        """Note the inputs of a case, whose floats have that dtype."""
        for name, each in arrays.items():
            self.extents = min(self.extents[0], *each.shape, 1 << 62), max(self.extents[1], *each.shape, 0)
            self.kinds[name] = each.dtype
            self.nan |= bool(np.isnan(each).any())
            self.infinite |= bool(np.isinf(each).any())
            known = each[~np.isnan(each)]
            if known.size:
                self.low[name] = min(self.low.get(name, math.inf), known.min())
                self.high[name] = max(self.high.get(name, -math.inf), known.max())
            if each.dtype.kind == "f":
                self.dtypes.add(dtype)
                sizes = np.abs(known[np.isfinite(known) & (known != 0.0)])
                least, most = self.magnitudes
                self.magnitudes = min(least, sizes.min(initial=math.inf)), max(most, sizes.max(initial=0.0))

    def never(self, dtypes: Sequence[str]) -> str:
        """Return what was never drawn, though the dtypes have it, in a line; floats could have had these dtypes."""
        floats = [name for name, kind in self.kinds.items() if kind.kind == "f"]
        whole = {name: np.iinfo(kind) for name, kind in self.kinds.items() if kind.kind in "iu"}
        specials = [word for word, came in (("NaN", self.nan), ("infinities", self.infinite)) if not came and floats]
        signed = [*floats, *(name for name, of in whole.items() if of.min < 0)]
        negative = [name for name in signed if self.low.get(name, 0.0) >= 0]
        ends = {name: (int(self.low[name]), int(self.high[name])) for name in whole if name in self.low}
        missing = [each for each in dtypes if each not in self.dtypes] if floats else []
        parts = [", ".join(missing), ", ".join(specials), f"negative {', '.join(negative)}" if negative else ""]
        for name, (low, high) in ends.items():
            parts += [f"{name} outside {low} to {high}"] if (low, high) != (whole[name].min, whole[name].max) else []
        if self.magnitudes[1] > 0.0:
            parts.append("magnitudes outside {:.1e} to {:.1e}".format(*self.magnitudes))
        parts.append("extents outside {} to {}".format(*self.extents))
        return f"never drawn: {'; '.join(filter(None, parts))}"
