"""What is decided about a case before its values are filled in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuzz.base.case import Guard

EPS = tuple(
    float(np.float32(e)) for e in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
)
"""as float32 numbers, since kernels take eps in float32."""


@dataclass(frozen=True)
class Placement:
    """Where one tensor goes: the layout class and its details."""

    layout: str = "contiguous"
    spread: int = 1
    guard: Guard = "after"
    offset: int = 0


@dataclass(frozen=True)
class Part:
    """One tensor of a case."""

    name: str
    dtype: str
    place: Placement = Placement()
    recipe: str = ""
    """of an input."""
    alias: str | None = None
    """of an output: the input in whose memory it is."""
    stack: str = ""
    """of a weight of rank 2: 'one' row for all rows of x, or 'many', see `Operand.stackable`."""


@dataclass(frozen=True)
class Draw:
    """One drawn case of `op`, bit-exact once `realise` fills in its values."""

    op: str
    n: int
    rows: int
    rank: int
    axis: int
    eps: float
    offset: float
    seed: int
    parts: tuple[Part, ...]
    """inputs and outputs that are there, in the order of the op."""

    def shape(self) -> tuple[int, ...]:
        """n along the axis to normalise, the rows spread over the other axes. Rank 1 has one row."""
        others = _factors(self.rows, self.rank - 1)
        return (*others[: self.axis], self.n, *others[self.axis :])

    def part(self, name: str) -> Part:
        """The part of that name. Raises KeyError."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)


def _factors(rows: int, count: int) -> list[int]:
    """`count` numbers whose product is `rows`, none much larger than it must be."""
    factors = []
    for left in range(count, 0, -1):
        most = round(rows ** (1 / left))
        factor = rows if left == 1 else next((d for d in range(most, 1, -1) if rows % d == 0), 1)
        factors.append(factor)
        rows //= max(factor, 1)
    return factors
