"""Problems and outputs made to be hard for the oracle: edges of overflow, underflow, ties, special values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, head
from oracles.dtypes import Format, form
from oracles.enclosure import Enclosure
from oracles.rounding import STORAGE, round_to

RECIPES = (
    "normal",
    "uniform",
    "constant",
    "spike",
    "zero",
    "subnormal",
    "tiny squares",
    "mean square at underflow",
    "sum at overflow",
    "wide",
    "one nan",
    "one inf",
    "few zeros",
)


def row(recipe: str, n: int, dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """One row of `n` elements in the storage dtype of `dtype`."""
    return store(_values(recipe, n, form(dtype), rng), dtype)


def store(values: F64, dtype: str) -> NDArray[Any]:
    """`values` rounded to `dtype`."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return round_to(values, form(dtype)).astype(STORAGE[dtype])


def _values(recipe: str, n: int, target: Format, rng: np.random.Generator) -> F64:
    normal: F64 = rng.standard_normal(n)
    plain: F64 = rng.uniform(0, 1, n)
    # Squares are formed in f32 (in f64 for f64 rows), whatever the row's dtype is.
    wide = target if target.name == "f64" else form("f32")
    place = int(rng.integers(n))
    if recipe == "uniform":
        return plain
    if recipe == "constant":
        normal[:] = rng.uniform(0.5, 2)
    elif recipe == "spike":
        normal[place] = 2.0 ** rng.integers(3, 12)
    elif recipe == "zero":
        normal *= 0.0
    elif recipe == "subnormal":
        normal *= target.tiny / 8
    elif recipe == "tiny squares":
        normal *= 2.0 ** (wide.emin / 2 + rng.uniform(-14, 3))
    elif recipe == "mean square at underflow":
        normal *= 2.0 ** ((wide.emin - wide.precision) / 2 + rng.uniform(-2, 6))
    elif recipe == "sum at overflow":
        top = 2.0 ** ((1 - wide.emin) / 2 + 0.5)
        normal *= top * (1 + rng.uniform(-4, 4) * wide.u) / np.sqrt(max(np.sum(normal * normal), 1e-300))
    elif recipe == "wide":
        normal *= 2.0 ** rng.uniform(-20, 20, n)
    elif recipe == "one nan":
        normal[place] = np.nan
    elif recipe == "one inf":
        normal[place] = np.inf * rng.choice([-1.0, 1.0])
    elif recipe == "few zeros":
        normal[rng.uniform(size=n) < 0.3] = -0.0
    return normal


def probes(enclosure: Enclosure, rng: np.random.Generator) -> Iterator[F64]:
    """Outputs (float64, representable) on and next to the ends of the conformance sets, and special ones."""
    with np.errstate(all="ignore"):
        ends = [*enclosure.inner, *enclosure.outer, round_to(head(enclosure.centre), enclosure.form)]
        for end in ends:
            for steps in (-2, -1, 0, 1, 2):
                yield step(end, steps, enclosure.form)
        shape = enclosure.centre.shape
        yield np.zeros(shape)
        yield -np.zeros(shape)
        specials = np.array([np.nan, np.inf, -np.inf, 0.0, enclosure.form.max, enclosure.form.eta])
        yield rng.choice(specials, shape)


def step(values: F64, steps: int, target: Format) -> F64:
    """The value of `target` that is `steps` neighbours away; NaN and inf stay."""
    moved = np.array(values, dtype=np.float64)
    for _ in range(abs(steps)):
        if target.name == "f64":
            moved = np.where(np.isfinite(moved), np.nextafter(moved, np.copysign(np.inf, steps)), moved)
            continue
        _, exponent = np.frexp(moved)
        quantum = np.ldexp(1.0, np.maximum(exponent - target.precision, target.emin - target.precision + 1))
        # A quarter of the spacing past the half-way point reaches the neighbour on either side of a power of two.
        up = round_to(moved + np.sign(steps) * 0.75 * quantum, target)
        inner = round_to(moved + np.sign(steps) * 0.375 * quantum, target)
        moved = np.where(np.isfinite(moved), np.where(inner != moved, inner, up), moved)
    return moved
