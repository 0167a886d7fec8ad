"""The values of the inputs of several draws, drawn and rounded together: small cases cost a call of NumPy each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Layout
from fuzz.base.draw import Draw, Given, Part
from fuzz.base.dtypes import quantise
from fuzz.base.stream import Ahead, Asked, Reals, Stream, child_key
from fuzz.generate.given import made_of, repeated_or_cut, stored
from fuzz.generate.menus import LIKE_X, RELATED, WEIGHTS, Scene
from fuzz.generate.recipes import RECIPES, Recipe, RowSpec
from oracles.ops import OPS

Values = NDArray[np.generic]


class Contents:
    """The values of one draw's inputs, as each tensor's memory holds them."""

    def __init__(self, draw: Draw, layouts: Mapping[str, Layout]) -> None:
        self.draw, self.op, self.layouts = draw, OPS[draw.op], layouts
        self.arrays: dict[str, Values] = {}

    def jobs(self) -> Iterator[_Job]:
        """What is to be filled in: the inputs with memory of their own."""
        draw, op = self.draw, self.op
        for part in draw.parts:
            if part.alias is not None or not op.is_input(part.name):
                continue
            rows, registry = draw.rows, RECIPES
            if op.role(part.name) == "columns":
                rows, registry = self.layouts[part.name].shape[0] if part.stack else 1, WEIGHTS
            recipe = None
            if part.given is None and part.recipe not in RELATED:
                recipe = registry[draw.part("x").recipe if part.recipe == LIKE_X else part.recipe]
            # x has the draw's own stream, so that its values are those of the seed alone.
            key = draw.seed if part.name == "x" else child_key(draw.seed, part.name)
            yield _Job(self, part, RowSpec(rows, draw.n, part.dtype, draw.eps), recipe, key)

    def given(self, part: Part, given: Given, rows: int, stream: Stream) -> Values:
        """The values of a part that are given, or follow from such."""
        role = self.op.role(part.name)
        n = 1 if role == "rows" else self.draw.n
        values = repeated_or_cut(given, rows, n, weight=role == "columns")
        if role == "grid":
            values = made_of(part.recipe, values, self.draw.part("x").dtype, stream)
        return stored(values, part.dtype)

    def keep(self, part: Part, values: Values) -> None:
        """Put rounded values, row by row, where the tensor's memory has them."""
        layout, draw = self.layouts[part.name], self.draw
        if self.op.role(part.name) == "grid" and draw.axis != draw.rank - 1:
            # Rows are made last-axis; moving the axis keeps every row's values together.
            values = np.moveaxis(values.reshape(*draw.outer, draw.n), -1, draw.axis)
        self.arrays[part.name] = _folded(values.reshape(layout.shape), layout)

    def rows(self, name: str) -> Reals:
        """An input as float64: (rows, n) of a grid and of a weight of rank 2, otherwise (n,) of the weight."""
        values = self.arrays[name].astype(np.float64)
        if self.draw.part(name).stack:
            stacked: Reals = values[np.arange(self.draw.rows) % len(values)]
            return stacked
        if self.op.role(name) != "grid":
            return values.reshape(-1)
        return np.moveaxis(values, self.draw.axis, -1).reshape(self.draw.rows, self.draw.n)


@dataclass(frozen=True)
class _Job:
    """The values of one input, to be filled in."""

    contents: Contents
    part: Part
    spec: RowSpec
    recipe: Recipe | None
    """None of one that other tensors decide, and of given values."""
    key: int
    """That of its stream."""

    def drawn(self, ahead: Ahead) -> Reals:
        """The values, row by row, before they are rounded."""
        stream, contents = Stream(self.key, ahead), self.contents
        if self.recipe is not None:
            return self.recipe.fill(self.spec, stream).reshape(-1) if self.spec.size else np.zeros(0)
        values = {name: contents.rows(name) for name in contents.arrays}
        scene = Scene(contents.draw.eps, contents.draw.offset, values)
        return RELATED[self.part.recipe].fill(scene, stream).reshape(-1)


def filled_in(draws: Sequence[Draw], layouts: Sequence[Mapping[str, Layout]]) -> list[Contents]:
    """The values of all inputs of these draws, whose tensors lie so: the same as of each draw alone."""
    found = [Contents(draw, layout) for draw, layout in zip(draws, layouts, strict=True)]
    jobs = [job for contents in found for job in contents.jobs()]
    ahead = _ahead(jobs)
    # What others are related to comes first: x and weights never follow from another tensor.
    for related in (False, True):
        _fill([job for job in jobs if (job.part.recipe in RELATED) is related], ahead)
    return found


def _fill(jobs: Iterable[_Job], ahead: Ahead) -> None:
    waiting: dict[str, list[tuple[_Job, Reals]]] = {}
    for job in jobs:
        if job.part.given is not None:
            values = job.contents.given(job.part, job.part.given, job.spec.rows, Stream(job.key))
            job.contents.keep(job.part, values)
        else:
            waiting.setdefault(job.part.dtype, []).append((job, job.drawn(ahead)))
    for dtype, drawn in waiting.items():
        rounded = quantise(np.concatenate([values for _, values in drawn]), dtype)
        at = 0
        for job, reals in drawn:
            job.contents.keep(job.part, rounded[at : at + len(reals)])
            at += len(reals)


def _ahead(jobs: Iterable[_Job]) -> Ahead:
    """What recipes are known to ask of their streams."""
    normals, words = list[Asked](), list[Asked]()
    for job in jobs:
        for ask in job.recipe.asks if job.recipe is not None else ():
            (normals if ask.normal else words).append((child_key(job.key, ask.label), ask.count(job.spec)))
    return Ahead(normals, words)


def _folded(values: Values, layout: Layout) -> Values:
    """What the memory can hold: elements that share memory are equal."""
    if 0 not in layout.strides:
        return values
    for axis, stride in enumerate(layout.strides):
        if stride == 0 and values.shape[axis] > 1:
            values = np.broadcast_to(values.take([0], axis=axis), values.shape)
    return values
