"""Recipes for arguments of a logarithm or a root: positive numbers that are not too small, and, for functions that are
defined there, zeros and small numbers."""

from __future__ import annotations

import numpy as np

from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.recipes import RECIPES, Recipe, RowSpec, normal, recipe

POSITIVE: dict[str, Recipe] = {}
"""The recipes by name, from the plainest to the oddest."""
_LEAST = 2.0**-12


@recipe("normal, without its signs", structured=False, registry=POSITIVE)
def _sizes(spec: RowSpec, stream: Stream) -> Reals:
    return np.maximum(np.abs(normal(spec, stream)), _LEAST)


@recipe("ones, up to one part in 2**6: logarithms cancel", structured=False, registry=POSITIVE)
def _near_one(spec: RowSpec, stream: Stream) -> Reals:
    return 1.0 + (stream.child("off").uniform(spec.size) - 0.5) / 32.0


def _positive(name: str) -> None:
    """Register a recipe that takes the magnitudes of a recipe for rows."""
    known = RECIPES[name]

    def fill(spec: RowSpec, stream: Stream) -> Reals:
        return np.maximum(np.abs(known.fill(spec, stream)), _LEAST)

    POSITIVE[name] = Recipe(name, f"{known.summary}, without signs", known.structured, fill)


for _name in ("uniform", "constant", "monotone", "powers_of_two", "spike", "offset_mean"):
    _positive(_name)

NOT_NEGATIVE: dict[str, Recipe] = {}
"""Recipes with zeros and small numbers, which show whether a number is added before a root or after it."""


@recipe("normal, without its signs, and zeros", structured=False, registry=NOT_NEGATIVE)
def _some_zeros(spec: RowSpec, stream: Stream) -> Reals:
    return np.where(stream.child("which").uniform(spec.size) < 0.5, 0.0, np.abs(normal(spec, stream)))


@recipe("zeros", structured=True, registry=NOT_NEGATIVE)
def _all_zeros(spec: RowSpec, stream: Stream) -> Reals:
    return np.zeros(spec.size)


@recipe("powers of two up to 1, from 2**-40 where the format has that", structured=False, registry=NOT_NEGATIVE)
def _small_sizes(spec: RowSpec, stream: Stream) -> Reals:
    return np.ldexp(np.ones(spec.size), stream.child("power").integers(spec.size, *spec.powers(-40, 0)))
