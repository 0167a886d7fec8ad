"""Orders of sums, as data. The budget of a sum depends on its chain: the most additions that one term goes through."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


class NumericsError(ValueError):
    """A declaration that contradicts itself. The message starts with the name of the field at fault."""


@dataclass(frozen=True)
class Sequential:
    """One accumulator, to which one element after the other is added."""

    def chain(self, n: int) -> int:
        """Return the largest number of additions that one term of a sum of `n` terms goes through."""
        return n


@dataclass(frozen=True)
class Lanes:
    """`accumulators` vector registers of `lanes` lanes each, all of which are added as a tree at the end.

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
        """Return the largest number of additions that one term goes through."""
        block = self.lanes * self.accumulators
        if self.tail == "scalar":
            return n // block + _tree(block) + n % block
        # The vectors after the last whole block, at most `accumulators`, all go into accumulator 0.
        return n // block + math.ceil(n % block / self.lanes) + _tree(block)


@dataclass(frozen=True)
class VectorLanes:
    """`Lanes` of vector-length-agnostic code: the number of lanes is only known for a target."""

    accumulators: int
    tail: Literal["scalar", "predicated"]
    lane_bits: int = 32

    def __post_init__(self) -> None:
        _positive(accumulators=self.accumulators, lane_bits=self.lane_bits)

    def at(self, vector_bits: int) -> Lanes:
        """Return the `Lanes` of hardware whose vectors have `vector_bits` bits."""
        return Lanes(vector_bits // self.lane_bits, self.accumulators, self.tail)

    def chain(self, n: int) -> int:
        """Raise `NumericsError`: the vector length must be chosen first."""
        raise NumericsError("summation: the vector length is not chosen yet; use at(vector_bits)")


@dataclass(frozen=True)
class Tiles:
    """`width` partial sums, each of every width-th element, which are then added as a tree."""

    width: int

    def __post_init__(self) -> None:
        _positive(width=self.width)

    def chain(self, n: int) -> int:
        """Return the largest number of additions that one term goes through."""
        return math.ceil(n / self.width) + _tree(min(self.width, max(n, 1)))


@dataclass(frozen=True)
class Pairwise:
    """Recursive halving down to blocks of `block` elements, each of which is summed one element after the other."""

    block: int = 1

    def __post_init__(self) -> None:
        _positive(block=self.block)

    def chain(self, n: int) -> int:
        """Return the largest number of additions that one term goes through."""
        return min(n, self.block) + _tree(math.ceil(n / self.block))


@dataclass(frozen=True)
class Blocks:
    """Blocks of `block` elements, the last one perhaps shorter. Each block is summed in any order, then the sums of the
    blocks are added in any order. So do tiles of matrix products and atomic additions add. If it `truncates`, a block
    and what there is are added at once, as tensor cores do: all terms are cut off `extra` bits below the last one that
    the largest has, and their sum to the dtype, or to as many bits fewer if `extra` is negative."""

    block: int
    truncates: bool = False
    extra: int = 0

    def __post_init__(self) -> None:
        _positive(block=self.block)
        if self.extra and not self.truncates:
            raise NumericsError("summation: extra bits are those of blocks that truncate")

    def chain(self, n: int) -> int:
        """Return the largest number of additions that one term goes through. For blocks that truncate it is the number
        of roundings that may err as much, which is larger: each addition may lose a small term of any block whole."""
        blocks, cut = math.ceil(n / self.block), 1 - self.extra
        # With magnitudes of at most A together, a term is cut by less than 2^cut u A, and the sum by 2^max(1, cut) u A.
        most = math.ceil((n + blocks) * 2.0**cut) + (blocks << max(1, cut))
        return most if self.truncates else min(n, min(n, self.block) + blocks)


@dataclass(frozen=True)
class AnyOrder:
    """Any order, atomic additions included. It allows the same errors as `Sequential`."""

    def chain(self, n: int) -> int:
        """Return the largest number of additions that one term goes through."""
        return n


@dataclass(frozen=True)
class Steps(AnyOrder):
    """Any order, in a sum with a running maximum that is updated once for each `block` terms."""

    block: int

    def __post_init__(self) -> None:
        _positive(block=self.block)


@dataclass(frozen=True)
class Read:
    """An order that was measured on a kernel for sums of certain numbers of terms; other sums may have any order."""

    chains: tuple[tuple[int, int], ...]
    """Pairs: a number of terms, and the longest chain of a sum of that length."""

    def chain(self, n: int) -> int:
        """Return the largest number of additions that one term goes through. A starting value counts as a term."""
        known = dict(self.chains)
        return known[n] if n in known else known[n - 1] + 1 if n - 1 in known else n


Summation = Sequential | Lanes | VectorLanes | Tiles | Pairwise | Blocks | AnyOrder | Steps | Read


def rescalings(order: Summation, n: int) -> int:
    """Return how often, at most, one term is rescaled in a sum of `n` terms that is updated together with a running
    maximum: at each addition, or with `Steps` and `Blocks` once for each further block."""
    return max(math.ceil(n / order.block) - 1, 0) if isinstance(order, Steps | Blocks) else order.chain(n)


def is_biased(order: Summation) -> bool:
    """Whether the rounding errors of an order all have one sign, so that only the worst case bounds them."""
    return isinstance(order, Blocks) and order.truncates


def is_short(order: Summation) -> bool:
    """Whether sums in an order have fewer bits than their dtype, so that even a single term may be cut off."""
    return isinstance(order, Blocks) and order.extra < 0


def _tree(width: int) -> int:
    return math.ceil(math.log2(width)) if width > 1 else 0


def _positive(**fields: int) -> None:
    for name, value in fields.items():
        if value < 1:
            raise NumericsError(f"summation: {name} must be positive, not {value}")
