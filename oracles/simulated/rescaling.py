"""The rescaling of shares e^(score - maximum) in a simulated kernel as the maximum grows, equal in all its sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.elementary.functions import function
from oracles.simulated.roundings import Roundings
from oracles.summation import AnyOrder, Blocks, Sequential, Steps, Summation

Function = Callable[[F64], F64]


@dataclass(frozen=True)
class Join:
    """The join of two parts of a sum, given by index, with the factor of each. The result replaces the first part."""

    first: int
    second: int
    factors: tuple[F64, F64]


@dataclass(frozen=True)
class Rescaling:
    """A kernel's course through the scores of each row, which lie along the last axis."""

    places: NDArray[np.intp]
    """The order of the scores' places."""
    shares: Sequence[F64]
    """For each block, the shares relative to the block's maximum."""
    joins: Sequence[Join]

    def total(self, values: F64, summed: Callable[[F64, F64], F64], joined: Callable[[F64, F64, Join], F64]) -> F64:
        """Return the sum of shares times values. `summed` sums a block, `joined` joins two sums."""
        ends = np.cumsum([shares.shape[-1] for shares in self.shares])[:-1]
        blocks = np.split(values[..., self.places], ends, axis=-1)
        parts = [summed(shares, block) for shares, block in zip(self.shares, blocks, strict=True)]
        for each in self.joins:
            parts[each.first] = joined(parts[each.first], parts[each.second], each)
        return parts[0]


def rescaling(
    scores: F64, order: Summation, shuffles: bool, random: np.random.Generator, share: Callable[[F64, F64], F64]
) -> Rescaling:
    """Return a random course through the scores that an order allows. `share` calculates e^(a - b) as the kernel."""
    n = scores.shape[-1]
    size = order.block if isinstance(order, Steps | Blocks) else 1
    places = random.permutation(n) if shuffles else np.arange(n)
    blocks = [scores[..., places[at : at + size]] for at in range(0, n, size)]
    most = [each.max(axis=-1, keepdims=True) for each in blocks]
    shares = [share(*each) for each in zip(blocks, most, strict=True)]
    lanes = len(blocks)
    if isinstance(order, Sequential):
        lanes = 1
    elif isinstance(order, AnyOrder | Blocks):
        lanes = int(random.choice([1, min(3, lanes), lanes]))
    joins = list[Join]()
    for first, second in _pairs(len(blocks), lanes):
        larger = np.maximum(most[first], most[second])
        factors = share(most[first], larger)[..., 0], share(most[second], larger)[..., 0]
        joins.append(Join(first, second, factors))
        most[first] = larger
    return Rescaling(places, shares, joins)


def _pairs(count: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of parts to join: in each lane one part after the other, then the lanes as a tree."""
    for at in range(lanes, count):
        yield at % lanes, at
    step = 1
    while step < lanes:
        for first in range(0, lanes - step, 2 * step):
            yield first, first + step
        step *= 2


Part = tuple[F64, F64, int]
"""A statistic of some terms: their mean and sum of squared deviations, or their maximum and sum of exponentials; then
the number of terms."""


@dataclass(frozen=True)
class Joining:
    """The arithmetic that joins the statistics of two sets of terms."""

    rounding: Roundings
    dtype: Format
    exponentials: Format
    """The dtype of differences from the maximum, and of their exponentials."""

    def moments(self, a: Part, b: Part) -> Part:
        """Return the mean and the squared deviations of the terms of both parts."""
        mean, squares, count = a[0], a[1], a[2] + b[2]
        apart = self._round(b[0] - mean)
        weight = self._round(np.full((1,) * mean.ndim, b[2] / count))
        mean = self._round(mean + self._round(apart * weight))
        if b[2] == 1:
            added = self._round(apart * self._round(b[0] - mean))
        else:
            added = self._round(self._round(apart * apart) * self._round(weight * a[2]))
        return mean, self._round(self._round(squares + b[1]) + added), count

    def rescaled(self, a: Part, b: Part) -> Part:
        """Return the maximum and the sum of exponentials of the terms of both parts."""
        most, sums = np.maximum(a[0], b[0]), []
        for each in (a, b):
            apart = self.rounding.result(each[0] - most, self.exponentials)
            step = np.where(np.isneginf(most), 0.0, apart)  # only masked terms so far
            factor = np.where(step == 0, 1.0, self.rounding.function(function("exp"), step, self.exponentials))
            sums.append(self._round(each[1] * factor))
        return most, self._round(sums[0] + sums[1]), a[2] + b[2]

    def _round(self, values: F64) -> F64:
        return self.rounding.result(values, self.dtype)


def joined(terms: F64, second: float, lanes: int, join: Callable[[Part, Part], Part]) -> Part:
    """Return the statistic (`Part`) of all terms along the last axis. That of a single term has `second` as its second
    number. In each lane one term is joined after the other; then lanes are joined as a tree."""
    single: list[Part] = [
        (terms[..., [at]], np.full_like(terms[..., [at]], second), 1) for at in range(terms.shape[-1])
    ]
    parts = [_folded(single[lane::lanes], join) for lane in range(lanes)]
    while len(parts) > 1:
        parts = [_folded(parts[at : at + 2], join) for at in range(0, len(parts), 2)]
    return parts[0]


def _folded(parts: list[Part], join: Callable[[Part, Part], Part]) -> Part:
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found
