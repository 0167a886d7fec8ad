"""Reductions: the parts of a failing case that a smaller or plainer one keeps, as an edit of its draw, and the choices
that make one: integers, of which 0 is the plainest and the largest keeps the case."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from fuzz.core.base.case import CACHE_LINE, Case, CaseError, Layout, Origin, contiguous
from fuzz.core.base.draw import GIVEN, Draw, Given, Part, Placement
from fuzz.core.generate.given import DRAWN, KINDS, Values, given_rows, plain, rows_of
from fuzz.core.generate.layouts import lay_out
from fuzz.core.generate.realise import draw_of, layout_of, realise
from fuzz.core.laws.placement import placed
from oracles.dtypes import ITEMSIZE
from oracles.op import NO_EXTENTS, Extents
from oracles.operand import AXIS, OUTER, Parameter
from oracles.ops import OPS

Span = tuple[int, int]
"""The first index and the number of elements."""

APART, IN_PLACE, BY_ONE, BY_A_ROW, KEPT = "apart", "in place", "by one", "by a row", "kept"
WAYS = (APART, IN_PLACE, BY_ONE, BY_A_ROW, KEPT)
"""The ways in which an output may share an input's memory, the plainest first; 'kept' keeps the distance."""
STRIDES = ("contiguous", "pitched", "kept")
PLACES = ("aligned", "flush", "kept")
STACKS = ("one row", "stack of one", "kept")
"""The forms of stacked weights: of rank 1, of rank 2 with a single row, or as they were."""
_PLAIN = 3
"""The number of plain values of a parameter: the first values of the op."""


@dataclass(frozen=True)
class Reduction:
    """The parts of a case that are kept. `rows` has a span for each axis of the first input except that of its row."""

    rows: tuple[Span, ...]
    columns: Span
    dropped: frozenset[str] = frozenset()
    memory: Mapping[str, str] = field(default_factory=dict)
    """By the name of an output that shares an input's memory, one of WAYS; outputs that are not named stay as they
    are."""
    unshared: frozenset[str] = frozenset()
    """The names of the inputs that get memory of their own."""
    stacks: Mapping[str, str] = field(default_factory=dict)
    collapsed: bool = False
    """Whether the unnamed axes become one, or none if they have a single element and the op needs no axis for it; the
    row then lies along the last axis."""
    strides: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    """The kinds of new values, by tensor; tensors that are not named keep their values."""
    params: Mapping[str, float] = field(default_factory=dict)
    """The new values of parameters; parameters that are not named keep theirs."""
    extents: Mapping[str, Span] = field(default_factory=dict)
    """The spans of dimensions that the first input lacks; dimensions that are not named are kept whole."""


def plain_values(parameter: Parameter) -> tuple[float, ...]:
    """Return the plain values of a parameter, the plainest first."""
    return parameter.values[:_PLAIN] if parameter.neutral is None else (parameter.neutral,)


def reduced(draw: Draw, how: Reduction) -> Draw:
    """Return the reduced draw; the draw must have given values and strides. Raises CaseError if its layout cannot be
    kept."""
    draw, counts = draw.without(*how.dropped), tuple(count for _, count in how.rows)
    outer = _collapsed_outer(draw, counts) if how.collapsed else counts
    params = {**draw.params, **how.params, AXIS: len(outer) if how.collapsed else draw.axis}
    kinds = {how.values.get(part.name, DRAWN) for part in draw.parts if part.given}
    origin = draw.origin or Origin()
    recipe = origin.recipe if kinds == {DRAWN} else GIVEN
    return replace(
        draw,
        n=how.columns[1],
        outer=outer,
        extents={dim: _extent(draw, how, dim)[1] for dim in draw.extents},
        params=params,
        parts=tuple(_part(draw, part, how) for part in draw.parts),
        # Plain values are not random, so only the worst-case budget holds for them.
        structured=draw.structured or kinds != {DRAWN},
        origin=replace(origin, recipe=recipe, labels=()),
    )


def _collapsed_outer(draw: Draw, counts: tuple[int, ...]) -> tuple[int, ...]:
    rows, batch = math.prod(counts[: len(draw.batch)]), len(draw.batch)
    return (*((rows,) if _has_rows(draw, rows) else ()), *counts[batch:])


def _has_rows(draw: Draw, rows: int) -> bool:
    """Return whether the collapsed rows get an axis of their own."""
    return OPS[draw.op].any_axis or rows != 1


def _extent(draw: Draw, how: Reduction, dim: str) -> Span:
    return how.extents.get(dim, (0, draw.extents[dim]))


def reduced_case(case: Case, how: Reduction) -> Case:
    """Return the reduced case. Raises CaseError if its layout cannot be kept."""
    return realise(reduced(draw_of(case), how))


def _part(draw: Draw, part: Part, how: Reduction) -> Part:
    layout = _layout(draw, part, how)
    small = replace(part, placement=Placement(guard=layout.guard, offset=layout.offset, strides=layout.strides))
    if part.given is None:
        return _in_memory(draw, small, part, how)
    values = plain(how.values.get(part.name, DRAWN), _block(draw, part, part.given, layout, how), part.dtype)
    given = replace(given_rows(values), n=_length(draw, part, how), places=part.given.places)
    stack = ("many" if layout.shape[0] > 1 else "one") if part.stack and len(layout.shape) == 2 else ""
    return replace(small, given=given, stack=stack, alias=None if part.name in how.unshared else part.alias)


def _length(draw: Draw, part: Part, how: Reduction) -> int:
    """Return the length of a tensor's rows."""
    op = OPS[draw.op]
    if part.name in op.alike:
        return how.columns[1]
    return 1 if op.operand(part.name).axes[-1:] in ((), (OUTER,)) else _spans(draw, part, how)[-1][1]


def _block(draw: Draw, part: Part, given: Given, layout: Layout, how: Reduction) -> Values:
    """Return the kept values of a tensor, with each row along the last axis."""
    values, spans = rows_of(given), _spans(draw, part, how)
    if part.stack:
        (first, count), (column, columns) = spans
        values = values[first : first + count, column : column + columns]
        # The first row if it has rank 1 now; else the rows, repeated if the axis needs more of them.
        values = values[0] if len(layout.shape) == 1 else values[np.arange(layout.shape[0]) % len(values)]
        return np.ascontiguousarray(values)
    shape = draw.shape(part.name)
    if part.name in OPS[draw.op].alike:
        shape, spans = (*draw.outer, draw.n), (*how.rows, how.columns)
    block = tuple(slice(first, first + count) for first, count in spans)
    return np.ascontiguousarray(values.reshape(shape)[block])


def _in_memory(draw: Draw, small: Part, part: Part, how: Reduction) -> Part:
    """Return an output with its share of an input's memory."""
    way = how.memory.get(part.name, KEPT)
    if part.alias is None or way == APART:
        return replace(small, alias=None, shift=None)
    if part.shift is None or way == IN_PLACE:
        return replace(small, placement=replace(small.placement, strides=None), shift=None)
    # The distance from the first kept element of the input to the first kept one of the output.
    source, own = layout_of(draw, draw.part(part.alias)), layout_of(draw, part)
    steps = zip(_spans(draw, part, how), source.strides, own.strides, strict=True)
    kept = part.shift[0] + sum(first * (theirs - stride) for (first, _), theirs, stride in steps)
    size = {BY_ONE: 1, BY_A_ROW: how.columns[1]}.get(way, abs(kept))
    return replace(small, shift=(int(math.copysign(size, kept)), 0))


def _spans(draw: Draw, part: Part, how: Reduction) -> tuple[Span, ...]:
    """Return the kept span of each axis of a tensor."""
    if part.stack:
        return _stack_span(draw, part, how), how.columns
    op, batch = OPS[draw.op], len(draw.batch)
    if part.name in op.alike:
        return *how.rows[: draw.axis], how.columns, *how.rows[draw.axis :]
    named = dict(zip(op.inner, (*how.rows[batch:], how.columns), strict=True))
    named |= {dim: _extent(draw, how, dim) for dim in draw.extents}
    made = op.whole({dim: size for dim, (_, size) in named.items()}) if op.made else {}
    if made is None:
        raise CaseError(f"op {draw.op}: a dimension is too short for others that follow from it")
    named |= {dim: (0, made[dim]) for dim in op.made}
    axes = op.operand(part.name).axes
    return tuple(span for dim in axes for span in (how.rows[:batch] if dim == OUTER else (named[dim],)))


def _stack_span(draw: Draw, part: Part, how: Reduction) -> Span:
    """Return the span of rows of a stack: one for each index along the innermost outer axis, or a single row."""
    return how.rows[-1] if part.stack == "many" and draw.outer else (0, 1)


def _layout(draw: Draw, part: Part, how: Reduction) -> Layout:
    """Return the memory layout of a reduced tensor."""
    kept, spans = layout_of(draw, part), _spans(draw, part, how)
    block = _stack_layout(part, kept, spans, how) if part.stack else _block_layout(draw, part, kept, how)
    way = how.strides.get(part.name, "kept")
    if way == "contiguous" or (way == "pitched" and len(block.shape) < 2):
        block = contiguous(block.shape, block.guard, block.offset)
    elif way == "pitched":
        last = len(block.shape) - 1
        is_last = how.collapsed or part.name not in OPS[draw.op].alike
        axis = last if is_last else draw.axis
        block = lay_out("pitched", block.shape, axis, 1, block.guard, block.offset)
    place = how.places.get(part.name, "kept")
    if place != "kept":
        return replace(block, guard="before" if place == "aligned" else "after", offset=0)
    if block == kept:
        return kept
    size = ITEMSIZE[part.dtype]
    start = sum(first * stride for (first, _), stride in zip(spans, kept.strides, strict=True))
    return placed(block, size, (kept.alignment(size) + start * size) % CACHE_LINE)


def _block_layout(draw: Draw, part: Part, kept: Layout, how: Reduction) -> Layout:
    """Return the memory layout of the kept block of a tensor."""
    block = replace(kept, shape=tuple(count for _, count in _spans(draw, part, how)))
    return _collapsed(draw, part, block) if how.collapsed else block


def _stack_layout(part: Part, kept: Layout, spans: tuple[Span, ...], how: Reduction) -> Layout:
    """Return the memory layout of the kept rows of a stack. If all rows of the first input lie along one axis now, the
    stack has a row for each of them."""
    (_, rows), (_, n) = spans
    way = how.stacks.get(part.name, "kept")
    if way == "one row":
        return replace(kept, shape=(n,), strides=kept.strides[1:])
    every = math.prod(count for _, count in how.rows)
    wanted = 1 if way == "stack of one" or rows == 1 else every if how.collapsed else rows
    if wanted > rows:
        return contiguous((wanted, n), kept.guard, kept.offset)
    return replace(kept, shape=(wanted, n))


def _collapsed(draw: Draw, part: Part, block: Layout) -> Layout:
    """Return the same memory with one axis for all unnamed ones. Raises CaseError if their rows are not equally
    spaced."""
    dims = OPS[draw.op].dims(part.name, len(block.shape), draw.axis).split()
    axes = list(zip(dims, block.shape, block.strides, strict=True))
    named = [(extent, stride) for dim, extent, stride in axes if dim != OUTER]
    if OUTER not in OPS[draw.op].operand(part.name).axes:
        return block
    unnamed = [(extent, stride) for dim, extent, stride in axes if dim == OUTER]
    steps = [(extent, stride) for extent, stride in unnamed if extent != 1]
    for (_, outer), (extent, inner) in pairwise(steps):
        if outer != extent * inner:
            raise CaseError(f"{part.name}: rows without a common distance")
    rows = math.prod(extent for extent, _ in unnamed)
    # The stride of a single row is never used; readers expect the widest gap there.
    stride = steps[-1][1] if steps else max((each for _, each in unnamed), key=abs, default=named[0][0] if named else 1)
    kept = [*([(rows, stride)] if _has_rows(draw, rows) else []), *named]
    return replace(block, shape=tuple(extent for extent, _ in kept), strides=tuple(stride for _, stride in kept))


Vector = tuple[int, ...]
Label = tuple[str, str]
"""The kind of a choice, and the tensor or axis that it concerns."""


START = {"rows": "row start", "n": "column start", "extent": "extent start"}
"""For each choice of a count, the choice of the first counted element."""
SHARING = ("over", "shared", "stack")
"""The choices about memory that tensors share."""


@dataclass(frozen=True)
class Choices:
    """All reductions of one case, as vectors of integers. Hypothesis minimises the first integers before the later
    ones. Partly shared memory comes first, since its distance decides how few rows and columns suffice. Rows come
    before columns, both before the layout, and values last."""

    case: Case

    @cached_property
    def ranges(self) -> dict[Label, int]:
        """The largest value of each choice."""
        return {label: most for label, most in self._all() if most > 0}

    @property
    def whole(self) -> Vector:
        """The vector that keeps the case unchanged, with every block beginning at the first row and column."""
        return self.starting((0,) * len(self._draw.outer), 0)

    def starting(self, rows: tuple[int, ...], column: int, extents: Extents = NO_EXTENTS) -> Vector:
        """Return the vector that keeps the case; blocks with fewer rows and columns will begin at these indices."""
        starts = {("row start", str(axis)): row for axis, row in enumerate(rows)}
        starts["column start", ""] = column
        starts |= {("extent start", dim): extents.get(dim, 0) for dim in self._draw.extents}
        return tuple(starts.get(label, most) for label, most in self.ranges.items())

    def reduction(self, vector: Vector) -> Reduction:
        """Return the reduction for a vector."""
        chosen = dict(zip(self.ranges, vector, strict=True))
        case, draw = self.case, self._draw

        def of(kind: str, name: str = "") -> int:
            return chosen.get((kind, name), 0)

        counted = {label for label, _ in self._counts}

        def block(extent: int, count: str, name: str) -> Span:
            if (count, name) not in counted:
                return 0, extent
            size = min(extent, 1 + of(count, name))
            return min(of(START[count], name), extent - size), size

        names = (*case.inputs, *case.outputs)
        return Reduction(
            rows=tuple(block(extent, "rows", str(a)) for a, extent in enumerate(draw.outer)),
            columns=block(draw.n, "n", ""),
            extents={dim: block(size, "extent", dim) for dim, size in draw.extents.items()},
            dropped=frozenset(name for name in names if ("there", name) in chosen and not of("there", name)),
            memory={name: WAYS[most] for (kind, name), most in chosen.items() if kind in ("over", "in place")},
            unshared=frozenset(name for name in case.inputs if ("shared", name) in chosen and not of("shared", name)),
            stacks={name: STACKS[of("stack", name)] for name in case.inputs if ("stack", name) in chosen},
            collapsed=not of("axes"),
            strides={name: STRIDES[of("strides", name)] for name in names if ("strides", name) in chosen},
            places={name: PLACES[of("place", name)] for name in names},
            values={name: KINDS[of("values", name)] for name in case.inputs if ("values", name) in chosen},
            params=dict(self._changed_params(chosen)),
        )

    def apply(self, vector: Vector) -> Case:
        """Return the case for a vector. Raises CaseError if there is none."""
        kept = dict(zip(self.ranges, vector, strict=True))
        changed = any(kept[label] != most for label, most in self.ranges.items() if not label[0].endswith("start"))
        return realise(reduced(self._draw, self.reduction(vector))) if changed else self.case

    def _changed_params(self, chosen: Mapping[Label, int]) -> Iterator[tuple[str, float]]:
        """Yield the parameters that change; the largest choice keeps a parameter."""
        for name, values in self._plain_params.items():
            if chosen["parameter", name] < len(values):
                yield name, values[chosen["parameter", name]]

    @cached_property
    def _plain_params(self) -> Mapping[str, tuple[float, ...]]:
        """The plain values of each parameter that has no neutral value."""
        given = ((each, self.case.params.get(each.name, each.neutral)) for each in OPS[self.case.op].parameters)
        return {each.name: plain_values(each) for each, value in given if value is not None and value != each.neutral}

    @cached_property
    def _draw(self) -> Draw:
        return draw_of(self.case)

    @cached_property
    def _counts(self) -> Sequence[tuple[Label, int]]:
        """The choices of how many elements are kept along a dimension, each with its extent; fixed dimensions have
        none."""
        draw, op = self._draw, OPS[self.case.op]
        names = [*[""] * (draw.rank - len(op.inner)), *op.inner[:-1]]
        rows = [(("rows", str(axis)), size) for axis, size in enumerate(draw.outer) if names[axis] not in op.fixed]
        n = [(("n", ""), draw.n)] if op.row not in op.fixed else []
        return *rows, *n, *((("extent", dim), size) for dim, size in draw.extents.items() if dim not in op.fixed)

    def _all(self) -> Iterator[tuple[Label, int]]:
        case, draw = self.case, self._draw
        optional = {operand.name for operand in OPS[case.op].operands if operand.optional}
        names = (*case.inputs, *case.outputs)
        over = [part.name for part in draw.parts if part.shift is not None]
        yield from ((("over", name), len(WAYS) - 1) for name in over)
        yield from ((("shared", name), 1) for name, tensor in case.inputs.items() if tensor.alias is not None)
        yield from ((("stack", part.name), len(STACKS) - 1) for part in draw.parts if part.stack)
        yield from ((label, extent - 1) for label, extent in self._counts)
        yield from ((("there", name), 1) for name in names if name in optional)
        yield from ((("in place", name), 1) for name, out in case.outputs.items() if out.alias and name not in over)
        yield ("axes", ""), 1
        yield from ((("strides", name), len(STRIDES) - 1) for name in names)
        yield from ((("place", name), len(PLACES) - 1) for name in names)
        yield from ((("parameter", name), len(plain)) for name, plain in self._plain_params.items())
        yield from ((("values", name), len(KINDS) - 1) for name in case.inputs)
        yield from (((START[kind], name), extent - 1) for (kind, name), extent in self._counts)
