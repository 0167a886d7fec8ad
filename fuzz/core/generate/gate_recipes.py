"""Recipes for factors of a recurrence, or their logarithms. After many steps its state is neither 0 nor infinite."""

from __future__ import annotations

import numpy as np

from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.recipes import Recipe, RowSpec, random_signs, recipe

GATES: dict[str, Recipe] = {}
"""The recipes for factors by name, from the plainest to the oddest."""
LOG_GATES: dict[str, Recipe] = {}
"""The recipes for logarithms of factors, by the same names."""


@recipe("uniform between 1/2 and 1", structured=False, registry=GATES)
def _decay(spec: RowSpec, stream: Stream) -> Reals:
    return 1.0 - stream.child("lost").uniform(spec.size) / 2.0


@recipe("less than 1 by 2**-2 to 2**-10", structured=False, registry=GATES)
def _nearly_kept(spec: RowSpec, stream: Stream) -> Reals:
    return 1.0 - _share(spec, stream)


@recipe("more or less than 1 by 2**-2 to 2**-10, of either sign", structured=False, registry=GATES)
def _about_one(spec: RowSpec, stream: Stream) -> Reals:
    off = np.where(stream.child("side").integers(spec.size, 0, 1) == 0, -1.0, 1.0)
    return random_signs(spec, stream) * (1.0 + off * _share(spec, stream))


@recipe("the same, and a zero now and then: what was before is forgotten", structured=False, registry=GATES)
def _resets(spec: RowSpec, stream: Stream) -> Reals:
    forgets = stream.child("which").integers(spec.size, 0, 15) == 0
    return np.where(forgets, 0.0, 1.0 - _share(spec, stream))


@recipe("ones", structured=True, registry=GATES)
def _kept(spec: RowSpec, stream: Stream) -> Reals:
    return np.ones(spec.size)


@recipe("one number in all places, between 1/2 and 1", structured=True, registry=GATES)
def _steady(spec: RowSpec, stream: Stream) -> Reals:
    return np.full(spec.size, 1.0 - stream.child("lost").uniform(1)[0] / 2.0)


def _share(spec: RowSpec, stream: Stream) -> Reals:
    return np.ldexp(1.0, stream.child("power").integers(spec.size, -10, -2)) * (
        0.5 + stream.child("share").uniform(spec.size) / 2.0
    )


def _logarithm(name: str) -> None:
    """Register a recipe for approximate logarithms: x - 1 for the magnitude x of a factor, and -20 for zero."""
    known = GATES[name]

    def fill(spec: RowSpec, stream: Stream) -> Reals:
        sizes = np.abs(known.fill(spec, stream))
        return np.where(sizes == 0, -20.0, sizes - 1.0)

    LOG_GATES[name] = Recipe(name, f"{known.summary}, less 1", known.structured, fill)


for _name in GATES:
    _logarithm(_name)
