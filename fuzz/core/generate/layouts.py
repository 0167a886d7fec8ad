"""Layouts: the named classes of strides, as pure functions of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from fuzz.core.base.case import Guard, Layout, contiguous


@dataclass(frozen=True)
class LayoutClass:
    """A named way to lay out a tensor whose rows run along one axis."""

    name: str
    summary: str


CONTIGUOUS = LayoutClass("contiguous", "C order without gaps")
PITCHED = LayoutClass("pitched", "rows further apart than they are long")
PADDED = LayoutClass("padded", "a gap after every axis, so that no two of them collapse into one")
COLUMN_STEP = LayoutClass("column_step", "every second or third element along the row")
TRANSPOSED = LayoutClass("transposed", "the row axis is not the fastest in memory")
REVERSED = LayoutClass("reversed", "the row, the outermost axis, or both run backwards in memory")
EXPANDED = LayoutClass("expanded", "all rows are one and the same memory (stride 0)")
BROADCAST = LayoutClass(
    "broadcast", "all slices along one axis are one and the same memory (stride 0), as one matrix for a whole batch is"
)
EXPANDED_ROW = LayoutClass("expanded_row", "all elements of a row are one and the same memory (stride 0)")
EXPANDED_ALL = LayoutClass(
    "expanded_all", "all elements are one and the same memory, as the gradient of a plain sum is"
)
PERMUTED = LayoutClass("permuted", "rows in another order than that of the axes, as heads lie in a batch of tokens")
TRANSPOSED_EACH = LayoutClass("transposed_each", "each matrix of a batch is transposed by itself")

LAYOUT_CLASSES: Mapping[str, LayoutClass] = {
    layout.name: layout
    for layout in (
        CONTIGUOUS, PITCHED, PADDED, COLUMN_STEP, TRANSPOSED, REVERSED, EXPANDED, EXPANDED_ROW, EXPANDED_ALL, BROADCAST,
        PERMUTED, TRANSPOSED_EACH,
    )
}  # fmt: skip
OVERLAPPING = frozenset({EXPANDED.name, EXPANDED_ROW.name, EXPANDED_ALL.name, BROADCAST.name})
"""The classes in which several elements share memory. Only inputs have them."""
_OF_THREE = (BROADCAST.name, PERMUTED.name, TRANSPOSED_EACH.name)
"""The classes that are others again with a single axis beside the row's."""


@cache
def classes_of(rank: int) -> tuple[str, ...]:
    """Return the names of the classes that differ for tensors of that rank. If there is only one axis besides the
    row's, sharing a slice along that axis is the same as sharing a row, so 'broadcast' is left out."""
    return tuple(name for name in LAYOUT_CLASSES if rank > 2 or name not in _OF_THREE)


def lay_out(name: str, shape: tuple[int, ...], axis: int, spread: int, guard: Guard, offset: int) -> Layout:
    """Return a layout of class `name` for rows along `axis`. `spread`, at least 1, is the size of gaps in elements for
    'pitched' and 'padded'. It chooses the step, 2 or 3, for 'column_step', the reversed axes for 'reversed', and the
    shared axis for 'broadcast', and which axes 'permuted' swaps. Other classes ignore it."""
    others = [a for a in reversed(range(len(shape))) if a != axis]
    if name == "pitched":
        strides = _nest(shape, [axis, *others], gaps=[spread])
    elif name == "padded":
        strides = _nest(shape, [axis, *others], gaps=[spread + level for level in range(len(shape))])
    elif name == "column_step":
        strides = _nest(shape, [axis, *others], step=1 + (spread - 1) % 2 + 1)
    elif name == "transposed":
        strides = _nest(shape, [*others, axis])
    elif name == "transposed_each":
        beside = others[-1 if axis == len(shape) - 2 else 0 :][:1]  # else it would be C order
        strides = _nest(shape, [*beside, axis, *(each for each in others if each not in beside)])
    elif name == "permuted":
        moved = others[2:] if spread % 3 else []  # heads beside tokens, or tokens furthest apart
        strides = _nest(shape, [axis, *(each for each in others[1:] if each not in moved), *others[:1], *moved])
    elif name == "reversed":
        strides = _reverse(_nest(shape, [axis, *others]), axis, others, spread)
    elif name == "expanded":
        strides = [0] * len(shape)
        strides[axis] = 1
    elif name == "broadcast":
        several = [each for each in others if shape[each] > 1] or others or [axis]
        shared = several[-1 if spread % 3 else 0]
        strides = _nest(shape, [axis, *(each for each in others if each != shared)])
        strides[shared] = 0
    elif name == "expanded_row":
        strides = _nest(shape, others)
        strides[axis] = 0
    elif name == "expanded_all":
        strides = [0] * len(shape)
    else:
        strides = _nest(shape, list(reversed(range(len(shape)))))
    return Layout(shape, tuple(strides), guard, offset)


def _reverse(strides: list[int], axis: int, others: list[int], spread: int) -> list[int]:
    """Return the strides with the row axis, the outermost axis, or both reversed, as `spread` chooses."""
    outermost = others[-1:] or [axis]
    for chosen in ([axis], outermost, [*{axis, *outermost}])[spread % 3]:
        strides[chosen] = -strides[chosen]
    return strides


def _nest(shape: tuple[int, ...], order: list[int], step: int = 1, gaps: Sequence[int] = ()) -> list[int]:
    """Return strides in elements that nest the axes in `order`, the fastest first. `gaps[level]` elements are left free
    after each run of the axis at that level; `step` is the stride of the fastest axis."""
    strides = [0] * len(shape)
    reach = step
    for level, axis in enumerate(order):
        strides[axis] = reach
        reach = reach * max(shape[axis], 1) + (gaps[level] if level < len(gaps) else 0)
    return strides


def layout_class(layout: Layout, axis: int) -> str:
    """Return the name of the class of a layout whose rows lie along `axis`."""
    steps = [(e, s, a == axis) for a, (e, s) in enumerate(zip(layout.shape, layout.strides, strict=True)) if e > 1]
    along = next((stride for _, stride, is_row in steps if is_row), 1)
    across = [(extent, stride) for extent, stride, is_row in steps if not is_row]
    if along == 0 or any(stride == 0 for _, stride in across):
        if along:
            return "broadcast" if any(stride for _, stride in across) else "expanded"
        return "expanded_all" if across and not any(stride for _, stride in across) else "expanded_row"
    if any(stride < 0 for _, stride, _ in steps):
        return "reversed"
    dense = contiguous(layout.shape).strides
    if all(s == d for e, s, d in zip(layout.shape, layout.strides, dense, strict=True) if e > 1):
        return "contiguous"
    if along > 1:
        faster = [stride for _, stride in across if stride < along]
        return "column_step" if not faster else "transposed" if len(faster) == len(across) else "transposed_each"
    if any(outer[1] < inner[1] for outer, inner in pairwise(across)):
        return "permuted"
    collapses = all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(across))
    return "pitched" if collapses else "padded"


_BEYOND, _ALIGNED = 2**31, 64
"""A place that needs more than 32 bits, and a number of elements of which far pitches are multiples, as kernels of
vectors want."""


def further(layout: Layout) -> Layout | None:
    """Return the layout with the outermost rows so far apart that the last is more than 2^31 elements from the first,
    but each nearer than that to the next. None if there are fewer than three rows."""
    rows, *inner = layout.shape or (0,)
    if rows < 3 or not inner or 0 in inner:
        return None
    pitch = -(-(_BEYOND + 4096) // (rows - 1) // _ALIGNED) * _ALIGNED
    return replace(layout, strides=(pitch, *layout.strides[1:]))


def nearer(layout: Layout) -> Layout | None:
    """Return the layout with all elements within 2^31 places, if they are not and another stride of one axis suffices.
    None otherwise, as where two axes are far or where elements would share memory."""
    spans = [abs(stride) * (extent - 1) for extent, stride in zip(layout.shape, layout.strides, strict=True)]
    if layout.extent <= _BEYOND:
        return None
    axis = spans.index(max(spans))
    rest = layout.extent - spans[axis]
    near = (_BEYOND - rest) // (layout.shape[axis] - 1) // _ALIGNED * _ALIGNED
    strides = [*layout.strides]
    strides[axis] = near if strides[axis] > 0 else -near
    return replace(layout, strides=tuple(strides)) if near >= rest else None
