"""From a draw to its bit-exact case, and back. Only this module makes cases. It alone knows what stacked tensors,
shared memory, parameters and the axis mean for the tensors of a case. Code that needs another case edits a draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case, CaseError, Layout, Origin, Output, Shard, Tensor, contiguous
from fuzz.core.base.draw import GIVEN, Draw, Frame, Given, Part, Placement
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.memory import overlapping, shift
from fuzz.core.generate.coverage import placed_labels
from fuzz.core.generate.layouts import lay_out
from fuzz.core.generate.menus import PLACED
from fuzz.core.generate.observed import holds, kept_by
from fuzz.core.generate.structure import is_structured
from fuzz.core.generate.values import Laid, fill_in
from oracles.op import adjacent_extent
from oracles.operand import OUTER, Kept
from oracles.ops import OPS


def laid(draw: Draw, shard: Shard | None = None, number: int = 0) -> Laid:
    """Return the draw with the layout of every part: in its own memory, overlapping another part, or exactly in place
    of another part. Raise CaseError if the draw contradicts itself."""
    if not OPS[draw.op].has_fixed(draw.grid, draw.axis, draw.extents):
        raise CaseError(f"op {draw.op}: a dimension has not as many elements as it always has")
    whole = OPS[draw.op].whole(draw.sizes) or draw.sizes
    if empty := [dim for dim in OPS[draw.op].counted if not whole[dim]]:
        raise CaseError(f"op {draw.op}: there is no place along {empty[0]}, which is empty")
    layouts = {
        part.name: layout_of(draw, part)
        for part in draw.parts
        if part.alias is None or (part.shift is not None and part.placement.strides is not None)
    }
    for part in draw.parts:
        if part.alias is not None and part.shift is not None:
            home = draw.part(part.alias).alias or part.alias
            own = layouts[part.name] if part.placement.strides is not None else layouts[home]
            own = contiguous(own.shape) if part.dense else own
            elements, rows = part.shift
            shift = elements + rows * draw.block(home)[1]
            layouts[home], layouts[part.name] = overlapping(layouts[home], own, shift)
    for part in draw.parts:
        if part.alias is not None and part.shift is None:
            there = layouts[part.alias]
            strides = part.placement.strides
            layouts[part.name] = there if strides is None else replace(there, strides=strides)
    return Laid(draw, layouts, shard, number)


def realise(draw: Draw) -> Case:
    """Return the bit-exact case of a draw. Raise CaseError if the draw contradicts itself."""
    (case,) = cases_of([laid(draw)])
    return case


def cases_of(drawn: Sequence[Laid]) -> list[Case]:
    """Return the cases of several draws, in less time than one by one. Raise CaseError if a draw contradicts itself."""
    fill_in(drawn)
    return [_case(each) for each in drawn]


def _case(drawn: Laid) -> Case:
    draw, layouts, op = drawn.draw, drawn.layouts, drawn.op
    inputs, outputs = dict[str, Tensor](), dict[str, Output]()
    for part in draw.parts:
        name, home = part.name, part.alias
        if not op.is_input(name):
            dtype = part.dtype if home is None else draw.part(home).dtype
            outputs[name] = Output(dtype, layouts[name], home)
        elif home is None:
            inputs[name] = Tensor(part.dtype, layouts[name], drawn.arrays[name].tobytes())
        elif home in inputs:
            inputs[name] = replace(inputs[home], alias=home)
    origin = draw.origin or _origin(drawn)
    return Case(draw.op, draw.params, inputs, outputs, is_structured(drawn), origin)


def _origin(drawn: Laid) -> Origin:
    first, labels = drawn.draw.part(drawn.op.main), drawn.labels
    if first.recipe in PLACED:
        labels = (*labels, *placed_labels(first.name, first.recipe, drawn.rows(first.name)))
    return Origin(first.recipe, first.placement.layout, drawn.draw.seed, drawn.number, labels, drawn.shard)


def draw_of(case: Case) -> Draw:
    """Return the draw from which `realise` makes this case. Raise CaseError if a tensor's shape does not fit its op."""
    frame = Frame(case)
    if not frame.fits():
        raise CaseError(f"op {case.op}: a tensor has a shape that its op does not allow")
    return Draw(
        op=case.op,
        n=frame.n,
        outer=frame.outer,
        extents=frame.extents,
        params=case.params,
        seed=case.origin.seed,
        parts=tuple(_part_of(frame, name, tensor) for name, tensor in case.tensors.items()),
        structured=case.structured,
        origin=case.origin,
        kept=None if holds_in(case) else {},
    )


def holds_in(case: Case, kept: Mapping[str, Kept] | None = None) -> bool:
    """Return whether the values of a case's inputs have the properties `kept`, by default those that the op states."""
    kept = kept_by(OPS[case.op]) if kept is None else kept
    return all(
        holds(some, _rows(Frame(case), name, tensor), tensor.dtype)
        for name, some in kept.items()
        if (tensor := case.inputs.get(name)) is not None
    )


def _rows(frame: Frame, name: str, tensor: Tensor) -> NDArray[np.generic]:
    """Return the values of an input with the axis of its rows moved to the end."""
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)
    return np.moveaxis(values, frame.axis, -1) if name in OPS[frame.case.op].alike else values


def _part_of(frame: Frame, name: str, tensor: Tensor | Output) -> Part:
    layout = tensor.layout
    place = Placement(guard=layout.guard, offset=layout.offset, strides=layout.strides)
    op = OPS[frame.case.op]
    is_stacked = name in op.columns and len(layout.shape) == 2  # `layout.shape[0]` may be 0
    part = Part(name, tensor.dtype, place, alias=tensor.alias)
    if isinstance(tensor, Tensor):
        many = is_stacked and layout.shape[0] == adjacent_extent(frame.grid, frame.axis)
        rows = _rows(frame, name, tensor)
        n = 1 if op.operand(name).axes[-1:] in ((), (OUTER,)) else rows.shape[-1]
        places = op.operand(name).span(frame.whole)[1] + 1 if op.integers.get(name) else None
        given = Given(tensor.dtype, n, np.ascontiguousarray(rows).tobytes(), places)
        return replace(part, recipe=GIVEN, given=given, stack="" if not is_stacked else "many" if many else "one")
    if tensor.alias is None:
        return part
    source = frame.case.inputs[tensor.alias].layout
    if source.relation(layout) == "same" or layout == source:  # an axis of one element may have any stride
        return part
    return replace(part, shift=(shift(source, layout), 0))


def layout_of(draw: Draw, part: Part) -> Layout:
    """Return the layout of a part in its own memory. Raise CaseError if its explicit strides have another rank."""
    op, place = OPS[draw.op], part.placement
    shape = draw.shape(part.name)
    if part.stack:
        shape = (adjacent_extent(draw.grid, draw.axis) if part.stack == "many" else 1, *shape)
    if place.strides is not None:
        return Layout(shape, place.strides, place.guard, place.offset)
    if not shape:
        return Layout((), (), place.guard, place.offset)
    axis = draw.axis if part.name in op.alike else len(shape) - 1
    layout = lay_out(place.layout, shape, axis, place.spread, place.guard, place.offset)
    return layout if place.step == 1 else replace(layout, strides=tuple(place.step * s for s in layout.strides))
