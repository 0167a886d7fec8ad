"""Recipes for rows that are divided by their largest magnitude and rounded to few bits."""

from __future__ import annotations

import numpy as np

from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.recipes import Recipe, RowSpec, normal, positions, random_signs, recipe
from oracles.dtypes import SINGLE

CODED: dict[str, Recipe] = {}
"""These recipes by name. Menus add the recipes for any rows."""
BLOCKED: dict[str, Recipe] = {}
"""Further recipes, for rows in blocks that each have a scale of few bits."""
_POWERS = (-6, 6)
_EDGES = (1.0, 1.0, 1.9375, 1.75, 1.875)
"""Mantissas at which a block gets the next larger scale: the next power of two, or the next number of few bits."""


def _scaled(codes: Reals, top: float, spec: RowSpec, stream: Stream) -> Reals:
    """Return rows of codes, each row times a power of two. One code of each row is the largest, `top`."""
    rows = codes.reshape(spec.rows, spec.n)
    rows = np.where(np.arange(spec.n) == positions(spec, stream)[:, None], np.copysign(top, rows), rows)
    powers = stream.child("power").integers(spec.rows, *spec.powers(*_POWERS))
    scaled: Reals = rows * np.ldexp(1.0, powers)[:, None]
    return scaled


@recipe(
    "whole numbers and halves up to 127, which the largest is, times a power of two", structured=True, registry=CODED
)
def _halves(spec: RowSpec, stream: Stream) -> Reals:
    return _scaled(stream.child("half").integers(spec.size, -253, 253) / 2.0, 127.0, spec, stream)


@recipe("five significant bits up to 448, which the largest is, times a power of two", structured=True, registry=CODED)
def _five_bits(spec: RowSpec, stream: Stream) -> Reals:
    bits = stream.child("bits").integers(spec.size, 16, 31).astype(np.float64)
    sizes = np.minimum(np.ldexp(bits, stream.child("exponent").integers(spec.size, -14, 4)), 448.0)
    return _scaled(sizes * random_signs(spec, stream), 448.0, spec, stream)


@recipe("normal, but for one element that is 8 times as large: first, last, in the tail, or anywhere", structured=True,
        registry=CODED)  # fmt: skip
def _one_larger(spec: RowSpec, stream: Stream) -> Reals:
    rows = normal(spec, stream).reshape(spec.rows, spec.n)
    chosen = np.arange(spec.n) == positions(spec, stream)[:, None]
    return np.where(chosen, np.copysign(8.0 * np.abs(rows).max(axis=1, keepdims=True, initial=0.0), rows), rows)


@recipe("negative numbers of about one size", structured=True, registry=CODED)
def _all_negative(spec: RowSpec, stream: Stream) -> Reals:
    return -0.5 - stream.child("level").uniform(spec.size)


@recipe("a few of the smallest steps of the dtype: in f32 the scale of a row is then rounded by far", structured=True,
        registry=CODED)  # fmt: skip
def _few_steps(spec: RowSpec, stream: Stream) -> Reals:
    power = stream.child("power").integers(spec.rows, 6, 10)
    most = np.ldexp(1.0 + stream.child("most").uniform(spec.rows), power)[:, None]
    rows = (2.0 * stream.child("share").uniform(spec.size).reshape(spec.rows, spec.n) - 1.0) * most
    chosen = np.arange(spec.n) == positions(spec, stream)[:, None]
    return np.where(chosen, np.copysign(most, rows), rows) * max(spec.form.eta, SINGLE.eta)


@recipe("small numbers, and few that are a power of two or another edge of scales, or beside it", structured=True,
        registry=BLOCKED)  # fmt: skip
def _scale_edges(spec: RowSpec, stream: Stream) -> Reals:
    edge = np.take(_EDGES, stream.child("edge").integers(spec.rows, 0, len(_EDGES) - 1))[:, None]
    beside = 1.0 + stream.child("beside").integers(spec.size, -2, 2).reshape(spec.rows, spec.n) * 2.0**-24
    small = stream.child("small").uniform(spec.size).reshape(spec.rows, spec.n) - 0.5
    chosen = stream.child("chosen").integers(spec.size, 0, 31).reshape(spec.rows, spec.n)
    found = np.where(chosen == 0, edge * beside, np.where(chosen == 1, -edge * beside, small))
    scaled: Reals = found * np.ldexp(1.0, stream.child("power").integers(spec.rows, *spec.powers(-12, 12)))[:, None]
    return scaled
