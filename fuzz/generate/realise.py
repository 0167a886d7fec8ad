"""From a draw to its bit-exact case, and back: the one place that makes a case.

What a weight of rank 2, tensors that share memory, eps, the offset and the axis mean for a case's tensors is known
here alone; whoever wants another case edits a draw.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case, CaseError, Layout, Origin, Output, Tensor
from fuzz.base.draw import GIVEN, Draw, Frame, Given, Part, Placement
from fuzz.base.dtypes import from_bits, quantise
from fuzz.base.memory import overlapping, shift
from fuzz.base.op import OPS, Op, adjacent_extent
from fuzz.base.stream import Reals, Stream
from fuzz.generate.coverage import labels_of
from fuzz.generate.given import RANDOM, made_of, repeated_or_cut, stored
from fuzz.generate.layouts import lay_out
from fuzz.generate.menus import LIKE_X, RELATED, WEIGHTS, Scene, is_structured
from fuzz.generate.recipes import RECIPES, RowSpec

Values = NDArray[np.generic]


def realise(draw: Draw, number: int = 0) -> Case:
    """The bit-exact case of a draw, the search's case of that number. Raises CaseError where the draw contradicts
    itself."""
    op, layouts = OPS[draw.op], _layouts(draw)
    parts = {part.name: part for part in draw.parts}
    names = [part.name for part in draw.parts if op.is_input(part.name)]
    values = _Values(draw, op, layouts)
    for name in sorted(names, key=("x", "weight").__contains__, reverse=True):  # what others are related to comes first
        if parts[name].alias is None:
            values.fill(parts[name])
    inputs: dict[str, Tensor] = {}
    for name in names:
        home = parts[name].alias
        if home is None:
            inputs[name] = Tensor(parts[name].dtype, layouts[name], np.ascontiguousarray(values.arrays[name]).tobytes())
        elif home in inputs:
            inputs[name] = replace(inputs[home], alias=home)
    outputs = {
        name: Output(part.dtype if part.alias is None else parts[part.alias].dtype, layouts[name], part.alias)
        for name, part in parts.items()
        if name not in names
    }
    return Case(
        op=draw.op,
        params=draw.params,
        inputs=inputs,
        outputs=outputs,
        structured=_is_structured(draw, op, layouts),
        origin=_origin(draw, {**inputs, **outputs}, values, number),
    )


def draw_of(case: Case) -> Draw:
    """The draw that `realise` makes that very case of, bit by bit. Raises CaseError where a tensor has no shape that
    its op knows."""
    frame = Frame(case)
    if not frame.fits():
        raise CaseError(f"op {case.op}: a tensor has a shape that is none of its op's")
    return Draw(
        op=case.op,
        n=frame.n,
        outer=frame.outer,
        params=case.params,
        seed=case.origin.seed,
        parts=tuple(_part_of(frame, name, tensor) for name, tensor in case.tensors.items()),
        structured=case.structured,
        origin=case.origin,
    )


def _part_of(frame: Frame, name: str, tensor: Tensor | Output) -> Part:
    layout = tensor.layout
    place = Placement(guard=layout.guard, offset=layout.offset, strides=layout.strides)
    stack = frame.stack(name)
    part = Part(name, tensor.dtype, place, alias=tensor.alias)
    if isinstance(tensor, Tensor):
        many = stack == adjacent_extent(frame.grid, frame.axis)
        values = from_bits(tensor.bits, tensor.dtype, layout.shape)
        rows = np.moveaxis(values, frame.axis, -1) if frame.role(name) == "grid" else values
        n = 1 if frame.role(name) == "rows" else frame.n
        given = Given(tensor.dtype, n, np.ascontiguousarray(rows).tobytes())
        return replace(part, recipe=GIVEN, given=given, stack="" if not stack else "many" if many else "one")
    if tensor.alias is None:
        return part
    source = frame.case.inputs[tensor.alias].layout
    if source.relation(layout) == "same" or layout == source:  # an axis of one element may have any stride
        return part
    return replace(part, shift=(shift(source, layout), 0))


def layout_of(draw: Draw, part: Part) -> Layout:
    """Where a part lies that has memory of its own. Raises CaseError for strides of another rank."""
    op, place = OPS[draw.op], part.place
    shape = op.shape(part.name, draw.grid, draw.axis)
    if part.stack:
        shape = (adjacent_extent(draw.grid, draw.axis) if part.stack == "many" else 1, *shape)
    if place.strides is not None:
        return Layout(shape, place.strides, place.guard, place.offset)
    if not shape:
        return Layout((), (), place.guard, place.offset)
    axis = draw.axis if op.operand(part.name).role == "grid" else len(shape) - 1
    layout = lay_out(place.layout, shape, axis, place.spread, place.guard, place.offset)
    return layout if place.step == 1 else replace(layout, strides=tuple(place.step * s for s in layout.strides))


def _layouts(draw: Draw) -> dict[str, Layout]:
    """Where every part lies: in memory of its own, over another with which it shares some, or exactly in its place."""
    parts = {part.name: part for part in draw.parts}
    layouts = {part.name: layout_of(draw, part) for part in draw.parts}
    for part in draw.parts:
        if part.alias is not None and part.shift is not None:
            home = parts[part.alias].alias or part.alias
            own = layouts[part.name] if part.place.strides is not None else layouts[home]
            elements, rows = part.shift
            layouts[home], layouts[part.name] = overlapping(layouts[home], own, elements + rows * draw.n)
    for part in draw.parts:
        if part.alias is not None and part.shift is None:
            there = layouts[part.alias]
            layouts[part.name] = there if part.place.strides is None else replace(there, strides=part.place.strides)
    return layouts


def _origin(draw: Draw, tensors: dict[str, Tensor | Output], values: _Values, number: int) -> Origin:
    if draw.origin is not None:
        return draw.origin
    x = draw.part("x")
    return Origin(x.recipe, x.place.layout, draw.seed, number, tuple(labels_of(draw, tensors, values.rows("x"))))


def _is_structured(draw: Draw, op: Op, layouts: dict[str, Layout]) -> bool:
    """Whether only the worst-case budget is sound: where in doubt, yes.

    Grids of different dtypes count as well: where one of them is zero, the sums are of numbers as coarse as the other.
    """
    x = draw.part("x")
    if draw.structured is not None:
        if x.recipe in RANDOM:  # but equal rows do not round at random to one another
            return any(part.alias is not None for part in draw.parts if part.given)
        # Rows longer than the given ones repeat them.
        return draw.structured or x.recipe != GIVEN or (x.given is not None and draw.n > x.given.n)
    grids = [part for part in draw.parts if part.recipe and op.operand(part.name).role == "grid"]
    flat = any(layouts[part.name].strides[draw.axis] == 0 for part in grids)
    return flat or len({part.dtype for part in grids}) > 1 or any(is_structured(p.recipe, x.recipe) for p in grids)


class _Values:
    """The values of a case's inputs, filled in one after the other."""

    def __init__(self, draw: Draw, op: Op, layouts: dict[str, Layout]) -> None:
        self.draw, self.op, self.layouts = draw, op, layouts
        self.arrays: dict[str, Values] = {}
        """as each tensor's memory holds them."""

    def fill(self, part: Part) -> None:
        """Fill in the values of one input; those that it may depend on are there."""
        draw, role = self.draw, self.op.operand(part.name).role
        layout = self.layouts[part.name]
        rows = draw.rows if role != "columns" else layout.shape[0] if part.stack else 1
        values = self._given(part, part.given, rows) if part.given is not None else self._drawn(part, rows)
        if role == "grid":
            # Rows are made last-axis; moving the axis keeps every row's values together.
            values = np.moveaxis(values.reshape(*draw.outer, draw.n), -1, draw.axis)
        self.arrays[part.name] = _folded(values.reshape(layout.shape), layout)

    def _drawn(self, part: Part, rows: int) -> Values:
        draw = self.draw
        # x has the draw's own stream, so that its values are those of the seed alone.
        stream = Stream(draw.seed) if part.name == "x" else Stream(draw.seed).child(part.name)
        recipe = draw.part("x").recipe if part.recipe == LIKE_X else part.recipe
        if recipe in RELATED:
            scene = Scene(draw.eps, draw.offset, {name: self.rows(name) for name in self.arrays})
            return quantise(RELATED[recipe].fill(scene, stream), part.dtype)
        registry = WEIGHTS if self.op.operand(part.name).role == "columns" else RECIPES
        return registry[recipe].draw(RowSpec(rows, draw.n, part.dtype, draw.eps), stream)

    def _given(self, part: Part, given: Given, rows: int) -> Values:
        role = self.op.operand(part.name).role
        values = repeated_or_cut(given, rows, 1 if role == "rows" else self.draw.n, weight=role == "columns")
        if role == "grid":
            stream = Stream(self.draw.seed).child(part.name)
            values = made_of(part.recipe, values, self.draw.part("x").dtype, stream)
        return stored(values, part.dtype)

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
