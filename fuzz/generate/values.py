"""The values of the inputs of several draws, drawn and rounded together: small cases cost a call of NumPy each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Layout
from fuzz.base.draw import Draw, Given, Part
from fuzz.base.dtypes import quantise
from fuzz.base.op import OPS
from fuzz.base.stream import Ahead, Reals, Stream
from fuzz.generate.given import made_of, repeated_or_cut, stored
from fuzz.generate.menus import LIKE_X, RELATED, WEIGHTS, Scene
from fuzz.generate.recipes import RECIPES, Recipe, RowSpec

Values = NDArray[np.generic]


class Contents:
    """The values of one draw's inputs, as each tensor's memory holds them."""

    def __init__(self, draw: Draw, layouts: Mapping[str, Layout]) -> None:
        self.draw, self.op, self.layouts = draw, OPS[draw.op], layouts
        self.arrays: dict[str, Values] = {}

    def own(self) -> Iterator[Part]:
        """The inputs with memory of their own."""
        return (part for part in self.draw.parts if part.alias is None and self.op.is_input(part.name))

    def spec(self, part: Part) -> RowSpec:
        """What is asked of the recipe of a part."""
        rows = self.draw.rows
        if self.op.operand(part.name).role == "columns":
            rows = self.layouts[part.name].shape[0] if part.stack else 1
        return RowSpec(rows, self.draw.n, part.dtype, self.draw.eps)

    def recipe(self, part: Part) -> Recipe | None:
        """None of one that other tensors decide, and of given values."""
        if part.given is not None or part.recipe in RELATED:
            return None
        name = self.draw.part("x").recipe if part.recipe == LIKE_X else part.recipe
        return (WEIGHTS if self.op.operand(part.name).role == "columns" else RECIPES)[name]

    def stream(self, part: Part, ahead: Ahead | None = None) -> Stream:
        """x has the draw's own stream, so that its values are those of the seed alone."""
        stream = Stream(self.draw.seed, ahead) if ahead is not None else Stream(self.draw.seed)
        return stream if part.name == "x" else stream.child(part.name)

    def drawn(self, part: Part, ahead: Ahead) -> Reals:
        """The values of a part that has no given ones, row by row, before they are rounded."""
        recipe, spec = self.recipe(part), self.spec(part)
        if recipe is None:
            scene = Scene(self.draw.eps, self.draw.offset, {name: self.rows(name) for name in self.arrays})
            return RELATED[part.recipe].fill(scene, self.stream(part, ahead)).reshape(-1)
        return recipe.fill(spec, self.stream(part, ahead)).reshape(-1) if spec.size else np.zeros(0)

    def given(self, part: Part, given: Given) -> Values:
        """The values of a part that are given, or follow from such."""
        role = self.op.operand(part.name).role
        n = 1 if role == "rows" else self.draw.n
        values = repeated_or_cut(given, self.spec(part).rows, n, weight=role == "columns")
        if role == "grid":
            values = made_of(part.recipe, values, self.draw.part("x").dtype, self.stream(part))
        return stored(values, part.dtype)

    def keep(self, part: Part, values: Values) -> None:
        """Put rounded values, row by row, where the tensor's memory has them."""
        layout, draw = self.layouts[part.name], self.draw
        if self.op.operand(part.name).role == "grid" and draw.axis != draw.rank - 1:
            # Rows are made last-axis; moving the axis keeps every row's values together.
            values = np.moveaxis(values.reshape(*draw.outer, draw.n), -1, draw.axis)
        self.arrays[part.name] = _folded(values.reshape(layout.shape), layout)

    def rows(self, name: str) -> Reals:
        """An input as float64: (rows, n) of a grid and of a weight of rank 2, otherwise (n,) of the weight."""
        values = self.arrays[name].astype(np.float64)
        if self.draw.part(name).stack:
            stacked: Reals = values[np.arange(self.draw.rows) % len(values)]
            return stacked
        if self.op.operand(name).role != "grid":
            return values.reshape(-1)
        return np.moveaxis(values, self.draw.axis, -1).reshape(self.draw.rows, self.draw.n)


def filled_in(draws: Sequence[Draw], layouts: Sequence[Mapping[str, Layout]]) -> list[Contents]:
    """The values of all inputs of these draws, whose tensors lie so: the same as of each draw alone."""
    found = [Contents(draw, layout) for draw, layout in zip(draws, layouts, strict=True)]
    parts = [(contents, part) for contents in found for part in contents.own()]
    ahead = _ahead(parts)
    # What others are related to comes first: x and weights never follow from another tensor.
    for related in (False, True):
        _fill([each for each in parts if (each[1].recipe in RELATED) is related], ahead)
    return found


def _fill(parts: Iterable[tuple[Contents, Part]], ahead: Ahead) -> None:
    waiting: dict[str, list[tuple[Contents, Part, Reals]]] = {}
    for contents, part in parts:
        if part.given is not None:
            contents.keep(part, contents.given(part, part.given))
        else:
            waiting.setdefault(part.dtype, []).append((contents, part, contents.drawn(part, ahead)))
    for dtype, drawn in waiting.items():
        rounded = quantise(np.concatenate([values for _, _, values in drawn]), dtype)
        at = 0
        for contents, part, values in drawn:
            contents.keep(part, rounded[at : at + len(values)])
            at += len(values)


def _ahead(parts: Iterable[tuple[Contents, Part]]) -> Ahead:
    """What recipes are known to ask of their streams."""
    normals, words = list[tuple[int, int]](), list[tuple[int, int]]()
    for contents, part in parts:
        recipe = contents.recipe(part)
        if recipe is None:
            continue
        spec, stream = contents.spec(part), contents.stream(part)
        for ask in recipe.asks:
            (normals if ask.normal else words).append((stream.child(ask.label).key, ask.count(spec)))
    return Ahead(normals, words)


def _folded(values: Values, layout: Layout) -> Values:
    """What the memory can hold: elements that share memory are equal."""
    if 0 not in layout.strides:
        return values
    for axis, stride in enumerate(layout.strides):
        if stride == 0 and values.shape[axis] > 1:
            values = np.broadcast_to(values.take([0], axis=axis), values.shape)
    return values
