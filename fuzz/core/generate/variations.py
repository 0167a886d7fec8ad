"""Variations: the draw of a failing case with other sizes, layouts, values or memory, for probes and sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fuzz.core.base.case import Case, CaseError, Origin
from fuzz.core.base.draw import GIVEN, Draw, Frame, Part, Placement
from fuzz.core.base.dtypes import quantise
from fuzz.core.base.stream import Stream
from fuzz.core.generate.given import given_rows, rows_of, stored
from fuzz.core.generate.layouts import layout_class
from fuzz.core.generate.menus import menus_of, usual
from fuzz.core.generate.realise import draw_of, layout_of, realise
from fuzz.core.generate.storage import allowed, grids
from oracles.operand import AXIS, OUTER, Parameter
from oracles.ops import OPS


def base_of(case: Case) -> Draw:
    """Return the draw of a case with layout classes in place of strides, so that it can have other sizes. Gaps between
    rows may differ from the case's. All rows lie along the first axis without a name."""
    draw, frame = draw_of(case), Frame(case)
    draw = replace(
        draw,
        params={**case.params, "axis": frame.axis},
        seed=0,
        parts=tuple(_in_classes(draw, part) for part in draw.parts),
        structured=draw.structured or any(tensor.alias is not None for tensor in case.inputs.values()),
        origin=Origin(GIVEN, "varied"),
    )
    return _meant(sized(draw, batch_of(draw), rank_of(draw)), case)


_MEANT = ("last_place", "first_place", "ascending_places", "descending_places", "set_up_to")
"""The recipes that may have drawn given integers. With a recipe that gives the same ones, they can have other sizes."""


def _meant(draw: Draw, case: Case) -> Draw:
    """Return the draw in which given integers are drawn by a recipe that gives the same ones, if there is such a
    recipe. Then a place that is the last of its row, for example, is also the last one of a longer row."""
    for name in OPS[draw.op].integers:
        for recipe in menus_of(OPS[draw.op])[name].names if name in case.inputs else ():
            meant = with_integers(draw, {name: recipe})
            if recipe in _MEANT and realise(meant).inputs[name].bits == case.inputs[name].bits:
                draw = meant
                break
    return draw


def with_integers(draw: Draw, recipes: Mapping[str, str]) -> Draw:
    """Return the draw with a recipe for each of these inputs of integers, in place of given values."""
    return draw.with_parts(*(replace(draw.part(name), recipe=recipe, given=None) for name, recipe in recipes.items()))


def integers_of(draw: Draw) -> dict[str, tuple[str, ...]]:
    """Return the recipes that each input of integers may have, by name."""
    op = OPS[draw.op]
    return {part.name: menus_of(op)[part.name].names for part in draw.parts if part.name in op.integers}


def batch_of(draw: Draw) -> int:
    """Return the number of slices along dimensions without a name, such as rows."""
    return math.prod(draw.batch)


def rank_of(draw: Draw) -> int:
    """Return the number of unnamed axes of the first input, plus one."""
    return 1 + len(draw.batch)


def _in_classes(draw: Draw, part: Part) -> Part:
    layout = layout_of(draw, part)
    place = Placement(guard=layout.guard, offset=layout.offset)
    if part.name in grids(draw):
        axis = draw.axis if part.name in OPS[draw.op].alike else len(layout.shape) - 1
        place = replace(place, layout=allowed(draw, part.name, layout_class(layout, axis)))
    elif layout.size > 1:
        place = replace(place, step=layout.strides[-1])
    if part.shift is not None and part.alias is not None:
        there = layout_of(draw, draw.part(part.alias))
        both = zip(layout.shape, layout.strides, there.strides, strict=False)
        part = replace(part, dense=any(extent > 1 and own != its for extent, own, its in both))
    if part.shift is not None and draw.n > 1 and part.shift[0] in (draw.n, -draw.n):
        part = replace(part, shift=(0, part.shift[0] // draw.n))
    return replace(part, placement=place)


def made(draw: Draw) -> Case:
    """Return the case of a variation. Raise CaseError if the variation contradicts itself."""
    case = realise(draw)
    for name, output in case.outputs.items():
        steps = zip(output.layout.shape, output.layout.strides, strict=True)
        if any(stride == 0 < extent - 1 for extent, stride in steps):
            raise CaseError(f"{name}: elements of an output share memory")
    return case


def sized(draw: Draw, rows: int, rank: int | None = None, axis: int | None = None) -> Draw:
    """Return the draw with `rows` slices along dimensions without a name, as `batch_of` counts them. If given, also
    change the rank, as `rank_of` counts it, and the axis."""
    rank = rank_of(draw) if rank is None else rank
    return batched(draw, (rows, *[1] * (rank - 2))[: rank - 1], axis)


def batched(draw: Draw, batch: tuple[int, ...], axis: int | None = None) -> Draw:
    """Return the draw with these extents of the dimensions without a name, and with its row along `axis`. Either is
    ignored if the op does not allow it."""
    op = OPS[draw.op]
    batch = batch if OUTER in op.inputs[0].axes else ()
    outer = (*batch, *draw.outer[len(draw.batch) :])
    at = (draw.axis if axis is None else axis) if op.any_axis else len(outer)
    return replace(draw, outer=outer, params={**draw.params, AXIS: at})


def extended(draw: Draw, sizes: Mapping[str, int]) -> Draw:
    """Return the draw with other extents of named dimensions."""
    op = OPS[draw.op]
    known = {**draw.sizes, **sizes, **op.fixed}
    outer = (*draw.batch, *(known[dim] for dim in op.inner[:-1]))
    return replace(draw, n=known[op.row], outer=outer, extents={dim: known[dim] for dim in draw.extents})


def filled(draw: Draw) -> Draw:
    """Return the draw with one element along each dimension that has none. A failure that needs one dimension to be
    empty may still depend on others."""
    if 0 not in (*draw.grid, *draw.extents.values()):
        return draw
    empty = [p for p in draw.parts if p.given is not None and not p.given.bits]
    ones = (replace(p, given=given_rows(quantise(np.ones((1, 1)), p.dtype))) for p in empty)
    grown = extended(draw, {dim: max(1, size) for dim, size in draw.sizes.items()})
    return sized(grown.with_parts(*ones), max(1, batch_of(draw)))


def of_dtype(draw: Draw, dtype: str) -> Draw:
    """Return the draw with another dtype of the first input and of every tensor that has the same dtype."""
    own = draw.part(OPS[draw.op].main).dtype
    return draw.with_parts(*(replace(part, dtype=dtype) for part in draw.parts if part.dtype == own))


def of_dtypes(draw: Draw, dtypes: Mapping[str, str]) -> Draw:
    """Return the draw with other dtypes of some tensors."""
    return draw.with_parts(*(replace(p, dtype=dtypes[p.name]) for p in draw.parts if p.name in dtypes))


def with_values(draw: Draw, recipe: str, seed: int) -> Draw:
    """Return the draw with values of a recipe of `fuzz.core.generate.given` in tensors of the first input's shape."""
    own = (part for part in draw.parts if part.given and part.name in grids(draw))
    parts = [replace(part, recipe=recipe) for part in own if part.name not in OPS[draw.op].integers]
    return replace(draw.with_parts(*parts), seed=seed, origin=Origin(recipe, "varied"))


def with_operand(draw: Draw, name: str) -> Draw:
    """Return the draw with an optional tensor added, with its usual dtype and values."""
    op = OPS[draw.op]
    operand, places = op.operand(name), [each.name for each in op.operands]
    dtypes = {part.name: part.dtype for part in draw.parts}
    dtype = dtypes.get(operand.dtype or op.main, operand.dtype or dtypes[op.main])
    part = Part(name, dtype, recipe=usual(operand) if op.is_input(name) else "")
    return replace(draw, parts=tuple(sorted((*draw.parts, part), key=lambda each: places.index(each.name))))


def drawn(draw: Draw, recipes: Mapping[str, str], seed: int) -> Draw:
    """Return the draw with values of these recipes, by input, as a search draws them."""
    parts = [replace(part, recipe=recipes[part.name], given=None) for part in draw.parts if part.name in recipes]
    return replace(draw.with_parts(*parts), seed=seed, structured=None, origin=Origin(DRAWN, "varied"))


def ordinary(draw: Draw, seed: int) -> Draw:
    """Return the draw with the values that a search draws first, for every parameter and for every input of floats."""
    op = OPS[draw.op]
    floats = (part.name for part in draw.parts if op.is_input(part.name) and part.name not in op.integers)
    recipes = {name: usual(op.operand(name)) for name in floats}
    params = {each.name: each.values[0] for each in op.parameters if each.name in draw.params}
    return drawn(draw, recipes, seed).with_params(**params)


DRAWN = "drawn"
"""The recipe in the origin of a variation whose values were drawn as in a search."""


def scaled(draw: Draw, name: str, power: float) -> Draw:
    """Return the draw with one input multiplied by 2^power."""
    part = draw.part(name)
    assert part.given is not None
    with np.errstate(all="ignore"):
        values = rows_of(part.given).astype(np.float64) * np.exp2(power)
        given = given_rows(stored(values, part.given.dtype))
    return draw.with_parts(replace(part, given=given))


def exchanged(draw: Draw, name: str, old: float, new: float) -> Draw:
    """Return the draw with every `old` in one input, of either sign, replaced by `new`; elements keep their signs."""
    part = draw.part(name)
    assert part.given is not None
    values = rows_of(part.given).astype(np.float64)
    values = np.where(np.abs(values) == abs(old), np.copysign(abs(new), values), values)
    return draw.with_parts(replace(part, given=given_rows(stored(values, part.dtype))))


def blended(draw: Draw, name: str, power: float) -> Draw:
    """Return the draw with normal values added to one input, with a deviation of 2^power times its median magnitude."""
    part = draw.part(name)
    assert part.given is not None
    with np.errstate(all="ignore"):
        values = rows_of(part.given).astype(np.float64)
        level = float(np.median(np.abs(values[np.isfinite(values)]))) if np.isfinite(values).any() else 1.0
        added = Stream(1).normal(values.size).reshape(values.shape) * (level or 1.0) * np.exp2(power)
        given = given_rows(stored(values + added, part.given.dtype))
    return draw.with_parts(replace(part, given=given))


def beside_ordinary(draw: Draw, name: str) -> Draw:
    """Return the draw with two rows in one input: the first given one, and one of normal values. It shows whether one
    row is enough for the failure."""
    part = draw.part(name)
    assert part.given is not None
    first = rows_of(part.given).astype(np.float64)[:1]
    given = given_rows(stored(np.vstack([first, Stream(1).normal(first.size)[None]]), part.given.dtype))
    return sized(draw.with_parts(replace(part, given=given, recipe=GIVEN)), 2)


def with_constant(draw: Draw, name: str, value: float) -> Draw:
    """Return the draw with the same number everywhere in one input."""
    part = draw.part(name)
    assert part.given is not None
    given = given_rows(np.full((part.given.rows, 1), value))
    return replace(draw.with_parts(replace(part, recipe=GIVEN, given=given)), structured=True)


def values_of(draw: Draw, parameter: Parameter) -> tuple[float, ...]:
    """Return the values that a parameter may have in a draw, or () if the draw cannot have it."""
    may = parameter.name in draw.params or parameter.neutral is not None
    means = not parameter.only_with or any(part.name == parameter.only_with for part in draw.parts)
    return parameter.values if may and means else ()
