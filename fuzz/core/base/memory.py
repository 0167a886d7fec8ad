"""Shared memory: how two tensors at one guard page lie relative to each other, and how to make them overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import CaseError, Layout


def shift(source: Layout, output: Layout) -> int:
    """Return the distance in elements from the first element of an input to an output's, at the same guard page."""
    return output.span[0] - output.lowest - (source.span[0] - source.lowest)


def overlapping(source: Layout, output: Layout, distance: int) -> tuple[Layout, Layout]:
    """Return the layouts of an input and of an output that lies `distance` elements further, at the input's guard page.
    The input is moved away from the page if the output would reach beyond it. Raise CaseError if the output would lie
    exactly in place of the input."""
    output = replace(output, guard=source.guard, offset=0)
    start = source.span[0] - source.lowest + distance + output.lowest
    offset = start if source.guard == "before" else -(start + output.extent)
    if offset < 0:
        source, offset = replace(source, offset=source.offset - offset), 0
    output = replace(output, offset=offset)
    if source.relation(output) == "same":
        raise CaseError("outputs: exactly in place of the input, which is no overlap")
    return source, output


def meets(source: Layout, output: Layout) -> bool:
    """Return whether some element of the output shares memory with one of the input, without being exactly in place."""
    if source.relation(output) != "overlap":
        return False
    return np.intersect1d(_places(source), _places(output) + shift(source, output)).size > 0


def distances(source: Layout, output: Layout, axis: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two numbers for each element of the output that shares its address with an element of the input, in order
    along `axis`: how many elements, and how many rows, the input's element comes after the output's. If several
    elements of the input share an address, the first and the last one count."""
    read = _row_by_row(source, axis)
    written = _row_by_row(output, axis) + shift(source, output)
    place, first = np.unique(read, return_index=True)
    last = read.size - 1 - np.unique(read[::-1], return_index=True)[1]
    _, here, there = np.intersect1d(place, written, return_indices=True)
    later, n = np.concatenate([first[here], last[here]]), source.shape[axis]
    return later - np.tile(there, 2), later // n - np.tile(there // n, 2)


def _row_by_row(layout: Layout, axis: int) -> NDArray[np.int64]:
    """Return the offsets of all elements, row by row along an axis."""
    return np.moveaxis(_places(layout).reshape(layout.shape), axis, -1).reshape(-1)


def overlaps_itself(layout: Layout) -> bool:
    """Return whether two elements of a tensor share an address."""
    far = 0
    steps = sorted((abs(stride), extent) for extent, stride in zip(layout.shape, layout.strides, strict=True))
    for stride, extent in steps if layout.size else ():
        if extent > 1 and stride <= far:  # usually they do, but strides of 2 and 3, for example, can interleave
            return np.unique(_places(layout)).size < layout.size
        far += (extent - 1) * stride
    return False


def contradicts_itself(layout: Layout, bits: bytes, itemsize: int) -> bool:
    """Return whether two elements share an address but have different bits, which no memory can hold."""
    if not overlaps_itself(layout):
        return False
    _, first, place = np.unique(_places(layout), return_index=True, return_inverse=True)
    words = np.frombuffer(bits, f"<u{itemsize}")
    return bool((words != words[first][place.reshape(-1)]).any())


def _places(layout: Layout) -> NDArray[np.int64]:
    """Return the offsets of all elements from the first one, in C order."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(layout.shape, layout.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return offsets
