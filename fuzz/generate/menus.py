"""What each operand's values are drawn from: recipes for weights, recipes that follow other tensors, the menus."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fuzz.base.stream import Reals, Stream
from fuzz.generate import hard_recipes
from fuzz.generate.recipes import RECIPES, Recipe, RowSpec, random_signs, recipe

WEIGHTS: dict[str, Recipe] = {}
"""The recipes for weights by name, from the plainest to the oddest."""


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
    return 15.8125 * random_signs(spec, stream)


@recipe("powers of two times uniform numbers, 2**-10 to 2**10", structured=False, registry=WEIGHTS)
def _large_and_small(spec: RowSpec, stream: Stream) -> Reals:
    powers = np.ldexp(random_signs(spec, stream), stream.child("power").integers(spec.size, -10, 9))
    return powers * (1.0 + stream.child("level").uniform(spec.size))


@recipe("about 2**-20", structured=False, registry=WEIGHTS)
def _tiny(spec: RowSpec, stream: Stream) -> Reals:
    return _normal(spec, stream) * 2.0**-20


@recipe("ones", structured=False, registry=WEIGHTS)
def _ones(spec: RowSpec, stream: Stream) -> Reals:
    return np.ones(spec.size)


@recipe("1.5: makes rounding ties of odd significands", structured=False, registry=WEIGHTS)
def _three_halves(spec: RowSpec, stream: Stream) -> Reals:
    return 1.5 * random_signs(spec, stream)


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
"""The ways to draw values that depend on others', by name."""


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


LIKE_X = "like x"
"""The recipe that x has, with values of its own."""

PLACED = ("spike", "one_nan", "one_inf")
"""These recipes place one element per row; where they place it is counted."""

assert hard_recipes.__name__, "imported for the recipes that it registers"


def recipes() -> Mapping[str, Recipe]:
    """All recipes for rows by name, from the plainest to the oddest: Hypothesis shrinks towards the first."""
    return RECIPES


_OFTEN: Mapping[str, tuple[str, ...]] = {
    "addend": ("normal", "normal", LIKE_X, LIKE_X, LIKE_X, "cancelling", "zero_rows"),
    "gradient": ("normal", "normal", "normal", "uniform", "ones", "one_hot", "along", "along"),
    "rstd": ("true", "true", "true", "true", "true", "nearly_true", "unrelated"),
}
"""The recipes that are drawn often, by menu; the rest of the menu is drawn now and then."""

MENUS: Mapping[str, tuple[str, ...]] = {
    "any": tuple(RECIPES),
    "addend": (*dict.fromkeys((*_OFTEN["addend"], *RECIPES)),),
    "gradient": (*dict.fromkeys((*_OFTEN["gradient"], *RECIPES)),),
    "weight": tuple(WEIGHTS),
    "rstd": tuple(dict.fromkeys(_OFTEN["rstd"])),
}
"""The recipes to be visited, by menu."""


def often(menu: str) -> tuple[str, ...]:
    """The recipes of a menu that are drawn most of the time."""
    return _OFTEN.get(menu, MENUS[menu])


def is_structured(name: str, x: str) -> bool:
    """Whether rows of that recipe have rounding errors that are not random, where x has the recipe `x`."""
    name = x if name == LIKE_X else name
    return RECIPES[name].structured if name in RECIPES else RELATED[name].structured
