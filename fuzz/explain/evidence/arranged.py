"""Probes whose values are in some order, have one sign, or repeat. They show whether a failure that shows with some
ordinary values and not with others needs that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from fuzz.core.base.case import Origin
from fuzz.core.base.draw import GIVEN, Draw
from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import given_rows, rows_of, stored

_LENGTHS = (2, 3, 5, 8, 33)
"""The row lengths of these probes, besides that of the failing case: a short random row may be sorted by chance."""
_ROWS = (1, 2, 5)
RECIPE = "arranged"
"""The recipe in the origin of these probes."""
_PLAIN = frozenset(("ones", "integers", "normal", "shifted", "spike"))
"""The recipes of ordinary values."""
ARRANGED: Mapping[str, Callable[[Reals], Reals]] = {
    "ascending": np.sort,
    "descending": lambda values: np.sort(values)[:, ::-1],
    "negative": lambda values: -np.abs(values),
    "positive": np.abs,
    "whole": lambda values: np.rint(values * 64.0),
    "twice each": lambda values: values[:, np.arange(values.shape[-1]) // 2],
    "level": lambda values: np.broadcast_to(values[:, :1], values.shape),
    "alike": lambda values: np.broadcast_to(values[:1], values.shape),
    "zeros between": lambda values: np.where(np.arange(values.shape[-1]) % 2, 0.0, values),
    "first": lambda values: values * np.where(np.arange(values.shape[-1]), 1.0, 256.0),
}
"""The ways to arrange normal values, shape `[rows, n]`."""


def matter(recipes: set[str]) -> bool:
    """Return whether values matter to a failure, given the recipes with which it shows: some ordinary ones lack."""
    return not recipes >= _PLAIN


def arranged(base: Draw, *, slowly: bool = False) -> Iterator[Draw]:
    """Yield draws whose values are arranged, in rows of several lengths unless the target is slow, and draws in which
    only the first row or only a later one has the values of the base."""
    lines = vary.rank_of(base) > 1
    for change in ARRANGED.values():
        for n in sorted({base.n, *(() if slowly else _LENGTHS)}):
            sized = [vary.sized(replace(base, n=n), rows) for rows in _ROWS if rows == 1 or lines]
            yield from (with_arranged(draw, change, n + place) for place, draw in enumerate(sized))
    for name in _grids(base) if lines else ():
        beside = vary.beside_ordinary(base, name)
        part = beside.part(name)
        assert part.given is not None
        yield from (beside, beside.with_parts(replace(part, given=given_rows(rows_of(part.given)[::-1]))))


def with_arranged(draw: Draw, change: Callable[[Reals], Reals], seed: int) -> Draw:
    """Return the draw with arranged values, of about the size of the given ones, in the tensors of the first input's
    shape."""
    parts = []
    for name in _grids(draw):
        part, rows = draw.part(name), draw.rows
        assert part.given is not None
        with np.errstate(invalid="ignore"):
            given = np.abs(rows_of(part.given).astype(np.float64))
        level = float(given.max(initial=0.0, where=np.isfinite(given))) or 1.0
        values = change(Stream(seed).child(name).normal(rows * draw.n).reshape(rows, draw.n) * level)
        parts.append(replace(part, recipe=GIVEN, given=given_rows(stored(values, part.dtype))))
    return replace(draw.with_parts(*parts), origin=Origin(RECIPE, "varied"))


def _grids(draw: Draw) -> list[str]:
    """Return the inputs of floats that have the shape of the first one."""
    own, integers = (part.name for part in draw.parts if part.given is not None), vary.integers_of(draw)
    return [name for name in own if name in storage.grids(draw) and name not in integers]
