"""Recipes for weights: never only ones, since a kernel that takes the wrong column's weight would pass."""

from __future__ import annotations

import math

import numpy as np

from fuzz.base.stream import Reals, Stream
from fuzz.generate.recipes import Recipe, RowSpec, recipe

WEIGHTS: dict[str, Recipe] = {}
"""by name, from the plainest to the oddest."""


def _signs(spec: RowSpec, stream: Stream) -> Reals:
    return 1.0 - 2.0 * stream.child("sign").integers(spec.size, 0, 1).astype(np.float64)


@recipe("another number in each of 251 columns", structured=False, registry=WEIGHTS)
def _distinct(spec: RowSpec, stream: Stream) -> Reals:
    # 8 bits, so that they stay distinct in bf16 too.
    start = int(stream.child("start").integers(1, 0, 250)[0])
    return ((np.arange(spec.size) * 37 + start) % 251 + 1).astype(np.float64) / 64.0


@recipe("standard normal", structured=False, registry=WEIGHTS)
def _normal(spec: RowSpec, stream: Stream) -> Reals:
    return stream.child("normal").normal(spec.size)


@recipe("normal with zeros of either sign", structured=False, registry=WEIGHTS)
def _some_zero(spec: RowSpec, stream: Stream) -> Reals:
    chosen = stream.child("which").integers(spec.size, 0, 5)
    return np.where(chosen == 0, 0.0, np.where(chosen == 1, -0.0, _normal(spec, stream)))


@recipe("negative", structured=False, registry=WEIGHTS)
def _negative(spec: RowSpec, stream: Stream) -> Reals:
    return -0.125 - stream.child("level").uniform(spec.size)


@recipe("15.8125 of either sign: all significant bits of bf16 but one", structured=False, registry=WEIGHTS)
def _fifteen(spec: RowSpec, stream: Stream) -> Reals:
    return 15.8125 * _signs(spec, stream)


@recipe("powers of two times uniform numbers, 2**-10 to 2**10", structured=False, registry=WEIGHTS)
def _large_and_small(spec: RowSpec, stream: Stream) -> Reals:
    powers = np.ldexp(_signs(spec, stream), stream.child("power").integers(spec.size, -10, 9))
    return powers * (1.0 + stream.child("level").uniform(spec.size))


@recipe("about 2**-20", structured=False, registry=WEIGHTS)
def _tiny(spec: RowSpec, stream: Stream) -> Reals:
    return _normal(spec, stream) * 2.0**-20


@recipe("ones", structured=False, registry=WEIGHTS)
def _ones(spec: RowSpec, stream: Stream) -> Reals:
    return np.ones(spec.size)


@recipe("1.5: makes rounding ties of odd significands", structured=False, registry=WEIGHTS)
def _three_halves(spec: RowSpec, stream: Stream) -> Reals:
    return 1.5 * _signs(spec, stream)


@recipe("normal with one NaN", structured=False, registry=WEIGHTS)
def _one_nan(spec: RowSpec, stream: Stream) -> Reals:
    return _with_one(spec, stream, math.nan)


@recipe("normal with one infinity", structured=False, registry=WEIGHTS)
def _one_inf(spec: RowSpec, stream: Stream) -> Reals:
    return _with_one(spec, stream, math.inf)


def _with_one(spec: RowSpec, stream: Stream, what: float) -> Reals:
    values = _normal(spec, stream)
    if spec.size:
        values[int(stream.child("column").integers(1, 0, spec.size - 1)[0])] = what
    return values
