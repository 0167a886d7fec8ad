"""From a draw to its bit-exact case: the values are filled in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case, Layout, Origin, Output, Tensor
from fuzz.base.draw import Draw, Part
from fuzz.base.dtypes import quantise
from fuzz.base.op import OPS, Op, adjacent_extent
from fuzz.base.stream import Reals, Stream
from fuzz.generate.labels import labels_of
from fuzz.generate.layouts import lay_out
from fuzz.generate.menus import LIKE_X, is_structured
from fuzz.generate.recipes import RECIPES, RowSpec
from fuzz.generate.related import RELATED, Scene
from fuzz.generate.weights import WEIGHTS

Values = NDArray[np.generic]


def realise(draw: Draw) -> Case:
    """The bit-exact case of a draw."""
    op, values = OPS[draw.op], _Values(draw)
    parts = {part.name: part for part in draw.parts}
    there = [operand.name for operand in op.inputs if operand.name in parts]
    for name in sorted(there, key=("x", "weight").__contains__, reverse=True):  # what others are related to comes first
        values.fill(parts[name])
    inputs = {
        name: Tensor(parts[name].dtype, values.layouts[name], np.ascontiguousarray(values.arrays[name]).tobytes())
        for name in there
    }
    outputs = {
        operand.name: _output(draw, op, parts[operand.name], values) for operand in op.outputs if operand.name in parts
    }
    x = parts["x"]
    labels = tuple(labels_of(draw, {**inputs, **outputs}, values.rows("x")))
    return Case(
        op=draw.op,
        params={"eps": draw.eps, "axis": draw.axis, **({"offset": draw.offset} if draw.offset else {})},
        inputs=inputs,
        outputs=outputs,
        structured=_is_structured(draw, op, values),
        origin=Origin(x.recipe, x.place.layout, draw.seed, labels=labels),
    )


def _output(draw: Draw, op: Op, part: Part, values: _Values) -> Output:
    if part.alias is not None:
        return Output(part.dtype, values.layouts[part.alias], part.alias)
    return Output(part.dtype, layout_of(draw, op, part))


def layout_of(draw: Draw, op: Op, part: Part) -> Layout:
    """Where a part lies."""
    grid, place = draw.shape(), part.place
    shape = op.shape(part.name, grid, draw.axis)
    if not shape:
        return Layout((), (), place.guard, place.offset)
    if part.stack:
        shape = (adjacent_extent(grid, draw.axis) if part.stack == "many" else 1, *shape)
    axis = draw.axis if op.operand(part.name).role == "grid" else len(shape) - 1
    return lay_out(place.layout, shape, axis, place.spread, place.guard, place.offset)


def _is_structured(draw: Draw, op: Op, values: _Values) -> bool:
    """Whether only the worst-case budget is sound: where in doubt, yes.

    Grids of different dtypes count as well: where one of them is zero, the sums are of numbers as coarse as the other.
    """
    x = draw.part("x").recipe
    grids = [part for part in draw.parts if part.recipe and op.operand(part.name).role == "grid"]
    flat = any(values.layouts[part.name].strides[draw.axis] == 0 for part in grids)
    return flat or len({part.dtype for part in grids}) > 1 or any(is_structured(part.recipe, x) for part in grids)


class _Values:
    """The values of a case's inputs, filled in one after the other."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.op = OPS[draw.op]
        self.arrays: dict[str, Values] = {}
        """as each tensor's memory holds them."""
        self.layouts: dict[str, Layout] = {}

    def fill(self, part: Part) -> None:
        """Draw the values of one input; those that it may depend on are there."""
        draw, role = self.draw, self.op.operand(part.name).role
        layout = self.layouts[part.name] = layout_of(draw, self.op, part)
        # x has the draw's own stream, so that its values are those of the seed alone.
        stream = Stream(draw.seed) if part.name == "x" else Stream(draw.seed).child(part.name)
        recipe = draw.part("x").recipe if part.recipe == LIKE_X else part.recipe
        if recipe in RELATED:
            scene = Scene(draw.eps, draw.offset, {name: self.rows(name) for name in self.arrays})
            values = quantise(RELATED[recipe].fill(scene, stream), part.dtype)
        elif role == "columns":
            stacked = layout.shape[0] if part.stack else 1
            values = WEIGHTS[recipe].draw(RowSpec(stacked, draw.n, part.dtype, draw.eps), stream)
        else:
            values = RECIPES[recipe].draw(RowSpec(draw.rows, draw.n, part.dtype, draw.eps), stream)
        if role == "grid":
            # Rows are drawn last-axis; moving the axis keeps every row's values together.
            outer = tuple(extent for a, extent in enumerate(draw.shape()) if a != draw.axis)
            values = np.moveaxis(values.reshape(*outer, draw.n), -1, draw.axis)
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


def _folded(values: Values, layout: Layout) -> Values:
    """What the memory can hold: elements that share memory are equal."""
    for axis, stride in enumerate(layout.strides):
        if stride == 0 and values.shape[axis] > 1:
            values = np.broadcast_to(values.take([0], axis=axis), values.shape)
    return values
