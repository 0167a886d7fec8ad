"""Numbers that follow from extents: they are looked for among powers of one or of a product of two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from oracles.reference.dims import Dim, extent
from oracles.reference.recording import Two

_POWERS = {
    1.0: "({})", -1.0: "1.0 / ({})", 0.5: "f.sqrt({})", -0.5: "f.rsqrt({})", 0.25: "f.sqrt(f.sqrt({}))",
    -0.25: "f.rsqrt(f.sqrt({}))", 2.0: "({}) * ({})",
}  # fmt: skip


def guesses(value: Two, dims: Iterable[Dim]) -> Iterator[tuple[str, Mapping[str, Dim]]]:
    """Return how a number may follow from extents, the plainest first."""
    free = [dim for dim in dims if dim.sizes[0] != dim.sizes[1]]
    sets: list[dict[str, Dim]] = [{"a": dim} for dim in free]
    sets += [{"a": one, "b": two} for at, one in enumerate(free) for two in free[at + 1 :]]
    for plain in (True, False):
        for some in sets:
            for less in (0.0, 1.0):
                m, n = (size - less for size in extent(some.values()))
                for power, text in _POWERS.items():
                    if m <= 0 or n <= 0 or m == n:
                        continue
                    factor, other = value.first / m**power, value.second / n**power
                    if math.isclose(factor, other, rel_tol=1e-12) and (abs(factor - 1) < 1e-12) == plain:
                        inner = " * ".join(some) if not less else f"({' * '.join(some)} - 1.0)"
                        found = text.format(inner)
                        yield (found if plain else f"{factor!r} * {found}"), some
