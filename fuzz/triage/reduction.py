"""Reductions: what a smaller or plainer case keeps of a failing one. They know an op only by its operands' roles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import ITEMSIZE, Case, CaseError, Layout, Origin, Output, Tensor, contiguous
from fuzz.base.dtypes import from_bits
from fuzz.base.op import OPS
from fuzz.generate.layouts import lay_out
from fuzz.laws.placement import placed
from fuzz.triage.memory import APART, IN_PLACE, KEPT, by, lies_over, shift, with_overlap
from fuzz.triage.plain import DRAWN, plain

Span = tuple[int, int]
"""first and count."""

STRIDES = ("contiguous", "pitched", "kept")
PLACES = ("aligned", "flush", "kept")
STACKS = ("one row", "stack of one", "kept")
"""what a stack of weights may become: of rank 1, of rank 2 with a single row."""
PLAIN_EPS = tuple(float(np.float32(eps)) for eps in (1e-5, 0.0, 1.0))
"""what eps may become; past the last one it is kept."""


@dataclass(frozen=True)
class Reduction:
    """What is kept of a case. Rows are a block: a span of each axis but the normalised one."""

    rows: tuple[Span, ...]
    columns: Span
    dropped: frozenset[str] = frozenset()
    memory: Mapping[str, str] = field(default_factory=dict)
    """by output that lies in the memory of an input, one of `memory.WAYS`; what is not named is kept."""
    unshared: frozenset[str] = frozenset()
    """inputs that get memory of their own."""
    stacks: Mapping[str, str] = field(default_factory=dict)
    collapsed: bool = False
    """rows as one axis, the normalised one last."""
    strides: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    """by tensor; what is not named is kept."""
    eps: float | None = None
    """None: kept."""
    unshifted: bool = False
    """the offset of the weight is 0."""


@dataclass(frozen=True)
class Frame:
    """A case's grid of rows and columns, and how its tensors hang on it."""

    case: Case

    @property
    def grid(self) -> tuple[int, ...]:
        return self.case.inputs["x"].layout.shape

    @property
    def axis(self) -> int:
        return int(self.case.params["axis"]) % len(self.grid)

    @property
    def n(self) -> int:
        return self.grid[self.axis]

    @property
    def outer(self) -> tuple[int, ...]:
        """Extents of the other axes."""
        return (*self.grid[: self.axis], *self.grid[self.axis + 1 :])

    def role(self, name: str) -> str:
        return OPS[self.case.op].operand(name).role

    def fits(self) -> bool:
        """True when every tensor has the shape that its role asks for: else there is no reducing it."""
        op = OPS.get(self.case.op)
        if op is None or "x" not in self.case.inputs or not self.grid:
            return False
        tensors: dict[str, Tensor | Output] = {**self.case.inputs, **self.case.outputs}
        known = {operand.name for operand in (*op.inputs, *op.outputs)}
        return set(tensors) <= known and all(
            tensor.layout.shape in op.shapes(name, self.grid, self.axis) for name, tensor in tensors.items()
        )

    def stack(self, name: str) -> int:
        """Rows of a stack of weights; 0 of any other tensor."""
        shape = self.case.tensors[name].layout.shape
        return shape[0] if self.role(name) == "columns" and len(shape) == 2 else 0


def reduced(case: Case, how: Reduction) -> Case:
    """The reduced case. Raises CaseError where its layout cannot be kept."""
    frame = Frame(case)
    inputs, outputs = _tensors(frame, how)
    params = dict(case.params)
    params["axis"] = _axis(frame, how)
    if how.eps is not None:
        params["eps"] = how.eps
    if how.unshifted and "offset" in params:
        params["offset"] = 0.0
    kinds = {how.values.get(name, DRAWN) for name in inputs}
    recipe = case.origin.recipe if kinds == {DRAWN} else " ".join(sorted(kinds))
    return replace(
        case,
        params=params,
        inputs=inputs,
        outputs=outputs,
        # Plain values are no random ones: only the worst case is sound for them.
        structured=case.structured or kinds != {DRAWN},
        origin=Origin(recipe, case.origin.layout, case.origin.seed, case.origin.number),
    )


def _axis(frame: Frame, how: Reduction) -> int:
    return 1 if how.collapsed else int(frame.case.params["axis"])


def _tensors(frame: Frame, how: Reduction) -> tuple[dict[str, Tensor], dict[str, Output]]:
    """Inputs with what they share; then the outputs that overlap one, which may move it; then the others."""
    case = frame.case
    inputs = {name: _input(frame, name, tensor, how) for name, tensor in case.inputs.items() if name not in how.dropped}
    for name, tensor in case.inputs.items():
        if name in inputs and tensor.alias in inputs and name not in how.unshared:
            inputs[name] = replace(inputs[tensor.alias], alias=tensor.alias)
    over: dict[str, Output] = {}
    for name, output in case.outputs.items():
        if name not in how.dropped and _overlaps(frame, name, how):
            assert output.alias is not None
            distance = by(how.memory.get(name, KEPT), _shift(frame, name, how), how.columns[1])
            inputs, over[name] = with_overlap(inputs, _output(frame, name, how), output.alias, distance)
    outputs = {}
    for name, output in case.outputs.items():
        in_place = output.alias is not None and how.memory.get(name) != APART
        if name not in how.dropped:
            outputs[name] = over.get(name) or _output(frame, name, how)
            if name not in over and in_place and output.alias in inputs:
                outputs[name] = replace(output, layout=inputs[output.alias].layout)
    return inputs, outputs


def _overlaps(frame: Frame, name: str, how: Reduction) -> bool:
    """True where the output overlaps an input in part, and is to go on doing so."""
    kept = lies_over(frame.case, name) and frame.case.outputs[name].alias not in how.dropped
    return kept and how.memory.get(name) not in (APART, IN_PLACE)


def _shift(frame: Frame, name: str, how: Reduction) -> int:
    """Elements from the first one that is kept of the input to the first one of the output."""
    output = frame.case.outputs[name]
    assert output.alias is not None
    source = frame.case.inputs[output.alias].layout
    steps = zip(_spans(frame, name, how), source.strides, output.layout.strides, strict=True)
    return shift(source, output.layout) + sum(first * (theirs - own) for (first, _), own, theirs in steps)


def _spans(frame: Frame, name: str, how: Reduction) -> tuple[Span, ...]:
    """The span of each of a tensor's axes."""
    role, stack = frame.role(name), frame.stack(name)
    if stack:
        # A row for each position along the innermost of the other axes, or one for all.
        return (how.rows[-1] if stack == frame.outer[-1] else (0, 1)) if frame.outer else (0, 1), how.columns
    if role == "columns":
        return (how.columns,)
    if role == "rows":
        return how.rows
    return (*how.rows[: frame.axis], how.columns, *how.rows[frame.axis :])


def _input(frame: Frame, name: str, tensor: Tensor, how: Reduction) -> Tensor:
    layout = _layout(frame, name, tensor, how)
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)
    block = values[tuple(slice(first, first + count) for first, count in _spans(frame, name, how))]
    if frame.stack(name):
        block = _stacked(block, layout.shape)
    # Along the row, so that rows have levels; then back or, collapsed, row after row.
    along = frame.role(name) == "grid"
    rows = np.moveaxis(block, frame.axis, -1) if along else block
    rows = plain(how.values.get(name, DRAWN), np.ascontiguousarray(rows), tensor.dtype)
    block = np.moveaxis(rows, -1, frame.axis) if along and not how.collapsed else rows
    block = folded(np.ascontiguousarray(block).reshape(layout.shape), layout)
    return Tensor(tensor.dtype, layout, np.ascontiguousarray(block).tobytes())


def _stacked(rows: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """The rows of a stack of weights: the first, or all, by turns where there are more rows of x along its axis now."""
    return rows[0] if len(shape) == 1 else rows[np.arange(shape[0]) % len(rows)]


def folded(values: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The same value wherever a stride of 0 makes elements one and the same memory."""
    for axis, stride in enumerate(layout.strides):
        if stride == 0 and values.shape[axis] > 1:
            values = np.broadcast_to(values.take([0], axis=axis), values.shape)
    return values


def _output(frame: Frame, name: str, how: Reduction) -> Output:
    """In memory of its own."""
    output = frame.case.outputs[name]
    return Output(output.dtype, _layout(frame, name, output, how))


def _layout(frame: Frame, name: str, tensor: Tensor | Output, how: Reduction) -> Layout:
    """Where a reduced tensor lies."""
    kept = tensor.layout
    spans = _spans(frame, name, how)
    block = _stack_block(frame, name, kept, how) if frame.stack(name) else _block(frame, name, kept, how)
    way = how.strides.get(name, "kept")
    if way == "contiguous" or (way == "pitched" and len(block.shape) < 2):
        block = contiguous(block.shape, block.guard, block.offset)
    elif way == "pitched":
        axis = _axis(frame, how) % len(block.shape) if frame.role(name) == "grid" else len(block.shape) - 1
        block = lay_out("pitched", block.shape, axis, 1, block.guard, block.offset)
    place = how.places.get(name, "kept")
    if place == "aligned":
        return replace(block, guard="before", offset=0)
    if place == "flush":
        return replace(block, guard="after", offset=0)
    if block == kept:
        return kept
    size = ITEMSIZE[tensor.dtype]
    start = sum(first * stride for (first, _), stride in zip(spans, kept.strides, strict=True))
    return placed(block, size, (kept.alignment(size) + start * size) % 64)


def _block(frame: Frame, name: str, kept: Layout, how: Reduction) -> Layout:
    """The memory of what is kept of a tensor."""
    block = replace(kept, shape=tuple(count for _, count in _spans(frame, name, how)))
    return _collapsed(frame, name, block) if how.collapsed else block


def _stack_block(frame: Frame, name: str, kept: Layout, how: Reduction) -> Layout:
    """The same of a stack of weights; with all rows of x along one axis it has a row for each of them."""
    (_, rows), (_, n) = _spans(frame, name, how)
    way = how.stacks.get(name, "kept")
    if way == "one row":
        return replace(kept, shape=(n,), strides=kept.strides[1:])
    every = math.prod(count for _, count in how.rows)
    wanted = 1 if way == "stack of one" or rows == 1 else every if how.collapsed else rows
    if wanted > rows:
        return contiguous((wanted, n), kept.guard, kept.offset)
    return replace(kept, shape=(wanted, n))


def _collapsed(frame: Frame, name: str, block: Layout) -> Layout:
    """The same memory with all rows along one axis. Raises CaseError where the rows have no common distance."""
    role = frame.role(name)
    if role == "columns":
        return block
    shape, strides = list(block.shape), list(block.strides)
    columns = [] if role == "rows" else [(shape.pop(frame.axis), strides.pop(frame.axis))]
    steps = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    for (_, outer), (extent, inner) in pairwise(steps):
        if outer != extent * inner:
            raise CaseError(f"{name}: rows without a common distance")
    # One row is nowhere reached by its stride; the widest gap is what a reader expects there.
    stride = steps[-1][1] if steps else (max(strides, key=abs) if strides else (columns[0][0] if columns else 1))
    axes = [(math.prod(shape), stride), *columns]
    return replace(block, shape=tuple(e for e, _ in axes), strides=tuple(s for _, s in axes))
