"""Laws of placement: the same values elsewhere in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fuzz.core.base.case import CACHE_LINE, Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.stream import Stream
from fuzz.core.laws.law import Law, has_elements
from oracles.dtypes import ITEMSIZE

Move = Callable[[Layout, int, Stream], Layout]
"""A function that returns another layout, given a layout, the size of its elements in bytes, and a stream."""


def placed(layout: Layout, itemsize: int, alignment: int) -> Layout:
    """Return the layout at the smallest offset that puts its first element at `alignment` bytes modulo 64."""
    steps, first = CACHE_LINE // itemsize, alignment // itemsize
    offset = first + layout.lowest if layout.guard == "before" else -(first + layout.extent + layout.lowest)
    return replace(layout, offset=offset % steps)


def distinct(layout: Layout) -> bool:
    """Return whether every element certainly has its own memory: each stride steps over all that smaller ones reach."""
    reach = 0
    for stride, extent in sorted((abs(s), e) for s, e in zip(layout.strides, layout.shape, strict=True) if e > 1):
        if stride <= reach:
            return False
        reach += (extent - 1) * stride
    return True


def moved_to(case: Case, inputs: Mapping[str, Tensor], outputs: Mapping[str, Output]) -> Case:
    """Return the case with other tensors. An output in place of an input gets the new layout of the input."""
    together = {
        name: output if output.alias is None else replace(output, layout=inputs[output.alias].layout)
        for name, output in outputs.items()
    }
    return replace(case, inputs=inputs, outputs=together)


def _moved(move: Move) -> Callable[[Case, Stream], Case]:
    """Return a function that makes the twin in which every tensor is moved, each by its own stream."""

    def twin(case: Case, stream: Stream) -> Case:
        def at(name: str, tensor: Tensor | Output) -> Layout:
            return move(tensor.layout, ITEMSIZE[tensor.dtype], stream.child(name))

        inputs = {name: replace(tensor, layout=at(name, tensor)) for name, tensor in case.inputs.items()}
        outputs = {name: replace(output, layout=at(name, output)) for name, output in case.outputs.items()}
        return moved_to(case, inputs, outputs)

    return twin


def _closed_up(layout: Layout, itemsize: int, stream: Stream) -> Layout:
    """Return a layout in C order without gaps, with its first element at the same alignment as before."""
    dense = contiguous(layout.shape, layout.guard)
    return placed(dense, itemsize, layout.alignment(itemsize))


def _has_gaps(case: Case) -> bool:
    return has_elements(case) and any(not _is_dense(tensor.layout) for tensor in case.tensors.values())


def _is_dense(layout: Layout) -> bool:
    dense = contiguous(layout.shape).strides
    steps = zip(layout.shape, layout.strides, dense, strict=True)
    return all(stride == wanted for extent, stride, wanted in steps if extent > 1)


def _is_in_place(case: Case) -> bool:
    return has_elements(case) and any(output.alias is not None for output in case.outputs.values())


def _out_of_place(case: Case, stream: Stream) -> Case:
    """Return the case with outputs in their own memory, laid out and aligned like the inputs whose place they had."""
    return replace(case, outputs={name: replace(output, alias=None) for name, output in case.outputs.items()})


def _among_others(layout: Layout, itemsize: int, stream: Stream) -> Layout:
    """Return a layout on the other side of a guard page, one to four cache lines away from it, perhaps with wider gaps
    between rows. Every element keeps its alignment, since a kernel may peel rows to an aligned address."""
    lines, wider = (int(word) for word in stream.words(2))
    line = CACHE_LINE // itemsize
    spread = replace(layout, strides=_wider(layout, line) if wider % 2 else layout.strides)
    other = replace(spread, guard="before" if layout.guard == "after" else "after")
    near = placed(other, itemsize, layout.alignment(itemsize))
    return replace(near, offset=near.offset + line * (1 + lines % 4))


def _wider(layout: Layout, line: int) -> tuple[int, ...]:
    """Return strides in which the steps of the outermost axis are one cache line longer. The strides stay the same if
    more than one other axis has steps: rows would no longer have equal distances, which most kernels require."""
    steps = [(abs(stride), axis) for axis, stride in enumerate(layout.strides) if layout.shape[axis] > 1]
    if len(steps) != 2 or 0 in layout.strides:  # if rows share memory, the larger step is the one along the row
        return layout.strides
    _, outermost = max(steps)
    stride = layout.strides[outermost]
    widened = stride + (line if stride > 0 else -line)
    return tuple(widened if axis == outermost else kept for axis, kept in enumerate(layout.strides))


def _shifted(layout: Layout, itemsize: int, stream: Stream) -> Layout:
    """Return the layout at another alignment: half of the time a multiple of 64 bytes, which code for aligned data
    needs, else any."""
    coin, step = (int(word) for word in stream.words(2))
    if coin % 2 and layout.alignment(itemsize):
        return placed(layout, itemsize, 0)
    return replace(layout, offset=layout.offset + 1 + step % (CACHE_LINE // itemsize - 1))


LAYOUT = Law("layout", "a contiguous copy instead of a strided view", _has_gaps, _moved(_closed_up), tickets=3)
IN_PLACE = Law(
    "in_place", "outputs in memory of their own instead of in place", _is_in_place, _out_of_place, tickets=4,
    moves_one=False, suits=lambda op: bool(op.aliases),
)  # fmt: skip
SURROUNDINGS = Law(
    "surroundings", "other memory around the tensors and between their rows", has_elements, _moved(_among_others)
)
ALIGNMENT = Law("alignment", "every tensor at another address modulo 64 bytes", has_elements, _moved(_shifted))
