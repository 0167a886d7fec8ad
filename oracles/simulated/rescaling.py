"""How a simulated kernel scales shares e^(score - maximum) again as the maximum grows, alike in all its sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.summation import Any, Blocks, Sequential, Steps, Summation

Function = Callable[[F64], F64]


@dataclass(frozen=True)
class Join:
    """Two parts of a sum that become one, in the place of the first, and what each is multiplied by before."""

    first: int
    second: int
    factors: tuple[F64, F64]


@dataclass(frozen=True)
class Rescaling:
    """The course of a kernel through the scores of each row, which are the last axis."""

    places: NDArray[np.intp]
    """In what order it takes them."""
    shares: Sequence[F64]
    """Those of each block, by the maximum of that."""
    joins: Sequence[Join]

    def total(self, values: F64, summed: Callable[[F64, F64], F64], joined: Callable[[F64, F64, Join], F64]) -> F64:
        """The sum of shares times values, by what sums a block and what joins two sums."""
        ends = np.cumsum([shares.shape[-1] for shares in self.shares])[:-1]
        blocks = np.split(values[..., self.places], ends, axis=-1)
        parts = [summed(shares, block) for shares, block in zip(self.shares, blocks, strict=True)]
        for each in self.joins:
            parts[each.first] = joined(parts[each.first], parts[each.second], each)
        return parts[0]


def rescaling(
    scores: F64, order: Summation, shuffles: bool, random: np.random.Generator, share: Callable[[F64, F64], F64]
) -> Rescaling:
    """One course that an order allows. `share` is what the kernel has for e^(a - b)."""
    n = scores.shape[-1]
    size = order.block if isinstance(order, Steps | Blocks) else 1
    places = random.permutation(n) if shuffles else np.arange(n)
    blocks = [scores[..., places[at : at + size]] for at in range(0, n, size)]
    most = [each.max(axis=-1, keepdims=True) for each in blocks]
    shares = [share(*each) for each in zip(blocks, most, strict=True)]
    lanes = len(blocks)
    if isinstance(order, Sequential):
        lanes = 1
    elif isinstance(order, Any | Blocks):
        lanes = int(random.choice([1, min(3, lanes), lanes]))
    joins = list[Join]()
    for first, second in _pairs(len(blocks), lanes):
        larger = np.maximum(most[first], most[second])
        factors = share(most[first], larger)[..., 0], share(most[second], larger)[..., 0]
        joins.append(Join(first, second, factors))
        most[first] = larger
    return Rescaling(places, shares, joins)


def _pairs(count: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Which of some parts are joined: in each lane one after the other, then the lanes as a tree."""
    for at in range(lanes, count):
        yield at % lanes, at
    step = 1
    while step < lanes:
        for first in range(0, lanes - step, 2 * step):
            yield first, first + step
        step *= 2
