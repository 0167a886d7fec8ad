"""Recipes whose values depend on tensors of the same case that are already there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fuzz.base.stream import Reals, Stream


@dataclass(frozen=True)
class Scene:
    """What is there already: values as float64, grids and the weight as (rows, n) or (n,)."""

    eps: float
    offset: float
    values: Mapping[str, Reals]

    @property
    def rstd(self) -> Reals:
        """(rows,) reciprocal roots of the rows of x, each within a few float64 ulp."""
        with np.errstate(all="ignore"):
            x = self.values["x"]
            # Scaled by a power of two, so that neither squares nor eps overflow, or underflow where they matter.
            _, exponent = np.frexp(np.max(np.abs(x), axis=1, initial=math.sqrt(self.eps)))
            scaled = np.ldexp(x, -exponent[:, None])
            # accumulate adds strictly in order; the order of reduce differs between versions of NumPy.
            total = np.add.accumulate(scaled * scaled, axis=1)[:, -1:].sum(axis=1)
            rstd = 1.0 / np.sqrt(total / max(x.shape[1], 1) + np.ldexp(self.eps, -2 * exponent))
            found: Reals = np.ldexp(rstd, -exponent)
            return found


Relate = Callable[[Scene, Stream], Reals]


@dataclass(frozen=True)
class Related:
    """A named way to draw values that depend on others'."""

    name: str
    summary: str
    structured: bool
    fill: Relate


RELATED: dict[str, Related] = {}
"""by name."""


def _related(summary: str, *, structured: bool) -> Callable[[Relate], Relate]:
    def register(fill: Relate) -> Relate:
        name = fill.__name__.strip("_")
        RELATED[name] = Related(name, summary, structured, fill)
        return fill

    return register


@_related("x of the other sign, half of it one part in 2**11 off: the sum cancels", structured=True)
def _cancelling(scene: Scene, stream: Stream) -> Reals:
    x = scene.values["x"]
    off = stream.child("off").integers(x.size, 0, 1).reshape(x.shape)
    with np.errstate(all="ignore"):
        return -x * (1.0 + off * 2.0**-11)


@_related("proportional to the normalised row: all of dx cancels but rounding errors and eps", structured=True)
def _along(scene: Scene, stream: Stream) -> Reals:
    x, rstd = scene.values["x"], scene.rstd[:, None]
    size = np.ldexp(1.0, stream.child("size").integers(len(x), -4, 4))[:, None]
    weight = scene.offset + scene.values["weight"] if "weight" in scene.values else np.ones(1)
    with np.errstate(all="ignore"):
        divisor = np.where(np.isfinite(weight) & (weight != 0), weight, 1.0)
        along = x * rstd * size / divisor
        return np.where(np.isfinite(along), along, 1.0)


@_related("what the forward pass would have stored", structured=False)
def _true(scene: Scene, stream: Stream) -> Reals:
    return scene.rstd


@_related("what the forward pass would have stored, up to one part in 2**9 off", structured=False)
def _nearly_true(scene: Scene, stream: Stream) -> Reals:
    rstd = scene.rstd
    steps = stream.child("step").integers(rstd.size, -24, -9)
    with np.errstate(all="ignore"):
        return rstd * (1.0 + np.ldexp(stream.child("sign").normal(rstd.size) / 5.0, steps))


@_related("any positive number of a moderate size", structured=False)
def _unrelated(scene: Scene, stream: Stream) -> Reals:
    rows = scene.values["x"].shape[0]
    return np.ldexp(1.0 + stream.child("level").uniform(rows), stream.child("power").integers(rows, -12, 12))
