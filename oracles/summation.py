"""The order in which a sum is formed, as data: the longest chain of additions that one term goes through sets its
budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


class NumericsError(ValueError):
    """A declaration that contradicts itself. The message starts with the name of the field at fault."""


@dataclass(frozen=True)
class Sequential:
    """One accumulator, one element after the other."""

    def chain(self, n: int) -> int:
        """Return the longest chain of additions that one term goes through, in a sum of `n` terms."""
        return n


@dataclass(frozen=True)
class Lanes:
    """`accumulators` vector registers of `lanes` lanes, summed as a tree; then the tail.

    `tail="scalar"` adds the remaining elements one by one onto the vector total; `tail="predicated"` adds them as
    partial vectors into the accumulators.
    """

    lanes: int
    accumulators: int
    tail: Literal["scalar", "predicated"]

    def __post_init__(self) -> None:
        _positive(lanes=self.lanes, accumulators=self.accumulators)
        if self.tail not in ("scalar", "predicated"):
            raise NumericsError(f"summation: tail must be scalar or predicated, not {self.tail!r}")

    def chain(self, n: int) -> int:
        """Return the longest chain, see `Sequential.chain`."""
        block = self.lanes * self.accumulators
        if self.tail == "scalar":
            return n // block + _tree(block) + n % block
        # The leftover vectors all go into accumulator 0, at most `accumulators` of them.
        return n // block + math.ceil(n % block / self.lanes) + _tree(block)


@dataclass(frozen=True)
class VectorLanes:
    """Like `Lanes`, for vector-length-agnostic code: the number of lanes is known only once a target is chosen."""

    accumulators: int
    tail: Literal["scalar", "predicated"]
    lane_bits: int = 32

    def __post_init__(self) -> None:
        _positive(accumulators=self.accumulators, lane_bits=self.lane_bits)

    def at(self, vector_bits: int) -> Lanes:
        """Return the structure on hardware whose vectors are `vector_bits` wide."""
        return Lanes(vector_bits // self.lane_bits, self.accumulators, self.tail)

    def chain(self, n: int) -> int:
        """Raise `NumericsError`: the vector length must be chosen first."""
        raise NumericsError("summation: the vector length is not chosen yet; use at(vector_bits)")


@dataclass(frozen=True)
class Tiles:
    """A tile of `width` partial sums, one per column of the tile, each over every width-th element; then a tree."""

    width: int

    def __post_init__(self) -> None:
        _positive(width=self.width)

    def chain(self, n: int) -> int:
        """Return the longest chain, see `Sequential.chain`."""
        return math.ceil(n / self.width) + _tree(min(self.width, max(n, 1)))


@dataclass(frozen=True)
class Pairwise:
    """Recursive halving down to blocks of `block` elements, which are summed one after the other."""

    block: int = 1

    def __post_init__(self) -> None:
        _positive(block=self.block)

    def chain(self, n: int) -> int:
        """Return the longest chain, see `Sequential.chain`."""
        return min(n, self.block) + _tree(math.ceil(n / self.block))


@dataclass(frozen=True)
class Blocks:
    """Blocks of `block` elements, the last one perhaps shorter, each summed in any order; then the sums of the blocks,
    in any order too: as tensor cores and tiles of a product add, and atomic additions of partial sums."""

    block: int
    truncates: bool = False
    """Whether an addition may cut bits off, in place of rounding them, as tensor cores do: it is off by twice as much,
    and always towards zero, so that errors of a long sum add up."""

    def __post_init__(self) -> None:
        _positive(block=self.block)

    def chain(self, n: int) -> int:
        """Return the longest chain, see `Sequential.chain`; twice as long if additions truncate."""
        longest = min(n, min(n, self.block) + math.ceil(n / self.block))
        return 2 * longest if self.truncates else longest


@dataclass(frozen=True)
class AnyOrder:
    """Any order at all, atomic additions included: as weak a promise as `Sequential`."""

    def chain(self, n: int) -> int:
        """Return the longest chain, see `Sequential.chain`."""
        return n


@dataclass(frozen=True)
class Steps(AnyOrder):
    """Any order; a running maximum is updated once in `block` terms."""

    block: int

    def __post_init__(self) -> None:
        _positive(block=self.block)


@dataclass(frozen=True)
class Read:
    """An order that was measured on a kernel, for sums with some numbers of terms; for others it may be any."""

    chains: tuple[tuple[int, int], ...]
    """The longest chain by the number of terms."""

    def chain(self, n: int) -> int:
        """Return the longest chain, see `Sequential.chain`. A starting value counts as one term more."""
        known = dict(self.chains)
        return known[n] if n in known else known[n - 1] + 1 if n - 1 in known else n


Summation = Sequential | Lanes | VectorLanes | Tiles | Pairwise | Blocks | AnyOrder | Steps | Read


def rescalings(order: Summation, n: int) -> int:
    """Return how often a term, or a sum that contains it, is scaled again at most, in a sum of `n` terms that is kept
    up to date with a maximum: whenever something is added to it, or whenever another block with a maximum of its own
    is."""
    if isinstance(order, Steps | Blocks):
        return max(math.ceil(n / order.block) - 1, 0)
    return order.chain(n)


def is_biased(order: Summation) -> bool:
    """Return whether its errors have one sign, so that only the worst case bounds them."""
    return isinstance(order, Blocks) and order.truncates


def _tree(width: int) -> int:
    return math.ceil(math.log2(width)) if width > 1 else 0


def _positive(**fields: int) -> None:
    for name, value in fields.items():
        if value < 1:
            raise NumericsError(f"summation: {name} must be positive, not {value}")
