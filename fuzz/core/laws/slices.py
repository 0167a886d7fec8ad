"""Laws of slices: the outputs of a slice do not depend on which other slices there are, or on its position among them.
A slice is, for example, a row of rms_norm, or a row or column of a matrix in a product.

All three laws pick slices along a batched dimension, see `oracles.dim.Dim`, in all tensors that have it. A permuted
slice lies at another address, so `row_permutation` also requires that a slice's alignment has no influence. The two
batch laws keep the strides, and with them the alignment of every slice. But axes that lie without a gap around the
slices of a named dimension do so in the twin too: otherwise kernels of dense matrices could not be given the twin. The
laws make no claim about an output in which values are combined along the dimension, such as the gradient of a weight,
since the order and number of its terms change. A single place along the row of the first input is no slice either:
neighbours there are calculated in vectors, and a tail one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import CACHE_LINE, Case, Layout, Output, Tensor
from fuzz.core.base.draw import Frame
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.stream import Stream
from fuzz.core.laws.law import Law, Outputs
from fuzz.core.laws.placement import distinct, moved_to, placed
from oracles.dim import OpDim
from oracles.dtypes import ITEMSIZE
from oracles.op import Op
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS

Places = NDArray[np.int64]
"""For each slice of the twin, the index of the same slice in the case."""

_MOST_APPENDED = 16384
"""The largest number of elements that appending may add, unless a single slice is larger. A twin should not cost more
than its case, and few cases have more elements."""


@dataclass(frozen=True)
class Slices:
    """The slices of a case along one dimension."""

    case: Case
    dim: str
    axes: Mapping[str, int]
    """The axis of each tensor that has the dimension, by the tensor's name."""
    extent: int
    """The number of slices."""

    def counted(self, layout: Layout, axis: int, count: int) -> Layout:
        """Return the layout of a tensor with `count` slices along `axis`."""
        nested = layout if self.dim == OUTER else replace(layout, strides=_nested(layout, axis, count))
        return replace(nested, shape=(*layout.shape[:axis], count, *layout.shape[axis + 1 :]))

    @property
    def layouts(self) -> Iterator[tuple[Layout, int]]:
        """The layout of each tensor that has the dimension, with its axis."""
        return ((self.case.tensors[name].layout, axis) for name, axis in self.axes.items())

    @property
    def told(self) -> str:
        """The name of the slices in messages."""
        op = OPS[self.case.op]
        if self.dim == OUTER:
            return "rows" if op.any_axis else "slices of the batch"
        return f"slices of {self.dim}"


def sliced(op: Op) -> list[OpDim]:
    """Return the dimensions of an op along which slices are picked."""
    return [dim for dim in op.dimensions.values() if dim.batched and dim.name not in (op.row, *op.fixed)]


def slices_of(case: Case) -> Iterator[Slices]:
    """Yield the slices of a case along each of its batched dimensions."""
    op = OPS[case.op]
    if AXIS not in case.params or any(0 in tensor.layout.shape for tensor in case.tensors.values()):
        return
    frame = Frame(case)
    for dim in sliced(op):
        if not dim.batched & case.outputs.keys():
            continue
        axis = _outer_axis(op, frame) if dim.name == OUTER else 0
        if axis is not None:
            having = [name for name in case.tensors if dim.name in op.operand(name).axes]
            axes = {name: _axis(op, frame, name, dim.name, axis) for name in having}
            name, place = next(iter(axes.items()))
            yield Slices(case, dim.name, axes, case.tensors[name].layout.shape[place])


def _outer_axis(op: Op, frame: Frame) -> int | None:
    """Return the outermost unnamed axis with several places, by its number among the unnamed axes, or None. An axis is
    left out if column inputs, such as weights, differ along it."""
    outer = op.outer(frame.grid, frame.axis)
    shapes = [frame.case.tensors[name].layout.shape for name in op.columns if name in frame.case.tensors]
    if any(len(shape) > 1 and shape[0] > 1 for shape in shapes):
        outer = outer[:-1]
    return next((axis for axis, extent in enumerate(outer) if extent > 1), 0 if outer else None)


def _axis(op: Op, frame: Frame, name: str, dim: str, outer: int) -> int:
    """Return the axis of a tensor along a dimension other than the row; for unnamed dimensions `outer` chooses one."""
    axes = op.operand(name).axes
    if dim == OUTER:
        return outer + (name in op.alike and outer >= frame.axis)
    return len(frame.case.tensors[name].layout.shape) - len(axes) + axes.index(dim)


Pick = Callable[[Slices, Stream], Places]
Fits = Callable[[Slices], bool]


def _permuted(slices: Slices, stream: Stream) -> Places:
    places = np.argsort(stream.words(slices.extent), kind="stable").astype(np.int64)
    in_order = bool((places == np.arange(places.size)).all())
    return np.roll(places, 1) if in_order else places


def _subset(slices: Slices, stream: Stream) -> Places:
    """Return a run of neighbouring slices, so that strides and alignments stay the same."""
    count, start = (int(word) for word in stream.words(2))
    count = 1 + count % (slices.extent - 1)
    start %= slices.extent - count + 1
    return np.arange(start, start + count, dtype=np.int64)


def _appended(slices: Slices, stream: Stream) -> Places:
    """Return all slices, followed by copies of some, whose outputs are known as well."""
    extent = slices.extent
    largest = max(layout.size // extent for layout, _ in slices.layouts)
    most = min(max(1, min(extent + 8, _MOST_APPENDED // largest)), _room(slices))
    count = int(stream.child("count").integers(1, 1, most)[0])
    return np.concatenate([np.arange(extent, dtype=np.int64), stream.child("copies").integers(count, 0, extent - 1)])


def _has_distinct(slices: Slices) -> bool:
    """Whether there are several slices without common memory, which could not hold different values."""
    return slices.extent > 1 and all(distinct(layout) for layout, _ in slices.layouts)


def _has_several(slices: Slices) -> bool:
    return slices.extent > 1


def _can_grow(slices: Slices) -> bool:
    """Return whether slices can follow the last one at the same stride without reaching other elements."""
    return _room(slices) > 0


def _room(slices: Slices) -> int:
    """Return the number of slices that can follow the last one, up to a limit."""
    return min(_room_of(slices, layout, axis) for layout, axis in slices.layouts)


def _room_of(slices: Slices, layout: Layout, axis: int) -> int:
    extent, stride = layout.shape[axis], abs(layout.strides[axis])
    if not distinct(slices.counted(layout, axis, extent + 1)):
        return 0
    if distinct(slices.counted(layout, axis, extent + _MOST_APPENDED)):
        return _MOST_APPENDED
    others = [(abs(s), e) for at, (s, e) in enumerate(zip(layout.strides, layout.shape, strict=True)) if at != axis]
    within = sum((each - 1) * other for other, each in others if other < stride)
    beyond = min(other for other, each in others if each > 1 and other > stride)
    return (beyond - 1 - within) // stride - extent + 1


def _nested(layout: Layout, axis: int, count: int) -> tuple[int, ...]:
    """Return the strides of `count` slices. Axes that lay around the slices without a gap do so again."""
    strides, own = list(layout.strides), abs(layout.strides[axis])
    reach = layout.shape[axis] * own, count * own
    around = [at for at, extent in enumerate(layout.shape) if extent > 1 and abs(strides[at]) >= max(reach[0], 1)]
    for at in sorted(around, key=lambda at: abs(strides[at])):
        before = abs(strides[at])
        if before == reach[0]:
            strides[at] = reach[1] if strides[at] > 0 else -reach[1]
        reach = layout.shape[at] * before, layout.shape[at] * abs(strides[at])
    return tuple(strides)


def _picked_layout(slices: Slices, layout: Layout, axis: int, places: Places, itemsize: int) -> Layout:
    # The twin's first slice keeps the alignment that it has in the case. A permutation keeps the base.
    first = 0 if len(places) == layout.shape[axis] else int(places[0])
    alignment = (layout.alignment(itemsize) + first * layout.strides[axis] * itemsize) % CACHE_LINE
    return placed(slices.counted(layout, axis, len(places)), itemsize, alignment)


def _picked_bits(tensor: Tensor | Output, bits: bytes, axis: int, places: Places) -> bytes:
    values = from_bits(bits, tensor.dtype, tensor.layout.shape)
    return np.ascontiguousarray(values.take(places, axis=axis)).tobytes()


@dataclass(frozen=True)
class _Picking:
    """A law whose twin has other slices than the case, along a dimension that is drawn among those that fit."""

    fits: Fits
    pick: Pick

    def applies(self, case: Case) -> bool:
        """Whether some dimension fits."""
        return any(map(self.fits, slices_of(case)))

    def slices(self, case: Case, stream: Stream) -> Slices:
        """Return the slices along one of the dimensions that fit, chosen by `stream`. For a shrunk case, the same
        dimension is chosen as long as it still fits."""
        return min(filter(self.fits, slices_of(case)), key=lambda each: int(stream.child(each.dim).words(1)[0]))

    def twin(self, case: Case, stream: Stream) -> Case:
        """Return the case with the picked slices."""
        slices = self.slices(case, stream)
        places, axes = self.pick(slices, stream), slices.axes

        def layout_of(name: str, tensor: Tensor | Output) -> Layout:
            if name not in axes:
                return tensor.layout
            return _picked_layout(slices, tensor.layout, axes[name], places, ITEMSIZE[tensor.dtype])

        def bits_of(name: str, tensor: Tensor) -> bytes:
            return _picked_bits(tensor, tensor.bits, axes[name], places) if name in axes else tensor.bits

        inputs = {n: Tensor(t.dtype, layout_of(n, t), bits_of(n, t)) for n, t in case.inputs.items()}
        outputs = {n: replace(output, layout=layout_of(n, output)) for n, output in case.outputs.items()}
        return moved_to(case, inputs, outputs)

    def expected(self, case: Case, stream: Stream, outputs: Outputs) -> Outputs:
        """Return the picked slices of every output that is batched along the dimension."""
        slices = self.slices(case, stream)
        places = self.pick(slices, stream)
        return {
            name: _picked_bits(output, outputs[name], slices.axes[name], places)
            for name, output in case.outputs.items()
            if name in OPS[case.op].dimensions[slices.dim].batched
        }


def _law(name: str, change: str, picking: _Picking, tickets: int = 1) -> Law:
    """Return a law. `change` has {} for the name of the slices."""

    def told(case: Case, stream: Stream) -> str:
        return change.format(picking.slices(case, stream).told)

    summary = change.format("rows, or slices along another batched dimension,")
    return Law(
        name, summary, picking.applies, picking.twin, picking.expected, tickets=tickets, rearranges=True, told=told,
        suits=lambda op: bool(sliced(op)),
    )  # fmt: skip


ROW_PERMUTATION = _law("row_permutation", "{} in another order", _Picking(_has_distinct, _permuted))
BATCH_SUBSET = _law("batch_subset", "some of the {} alone", _Picking(_has_several, _subset), 2)
BATCH_APPEND = _law("batch_append", "more {} after the last one", _Picking(_can_grow, _appended), 2)
