"""Shared memory: what a case's tensors have in common, kept or given up while the case becomes smaller."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case, CaseError, Layout, Output, Tensor

APART, IN_PLACE, BY_ONE, BY_A_ROW, KEPT = "apart", "in place", "by one", "by a row", "kept"
WAYS = (APART, IN_PLACE, BY_ONE, BY_A_ROW, KEPT)
"""how an output that overlaps an input may lie to it, the plainest first; 'kept': as far from it as it does."""


def lies_over(case: Case, name: str) -> bool:
    """True where the output lies at the guard page of an input, and not exactly in place of it."""
    output = case.outputs[name]
    return output.alias is not None and output.layout.relation(case.inputs[output.alias].layout) != "same"


def shift(source: Layout, output: Layout) -> int:
    """Elements from the first element of an input to that of an output at the same guard page."""
    return output.place[0] - output.lowest - (source.place[0] - source.lowest)


def by(way: str, kept: int, n: int) -> int:
    """The shift that `way` means for rows of `n`, in the direction of the one that there is."""
    size = {BY_ONE: 1, BY_A_ROW: n}.get(way, abs(kept))
    return int(math.copysign(size, kept))


def overlapping(source: Layout, output: Layout, distance: int) -> tuple[Layout, Layout]:
    """An input and an output `distance` elements on, at the input's guard page.

    The input moves away from the page where the output would lie beyond it. Raises CaseError where it lies exactly in
    place of the input.
    """
    output = replace(output, guard=source.guard, offset=0)
    start = source.place[0] - source.lowest + distance + output.lowest
    offset = start if source.guard == "before" else -(start + output.extent)
    if offset < 0:
        source, offset = replace(source, offset=source.offset - offset), 0
    output = replace(output, offset=offset)
    if source.relation(output) == "same":
        raise CaseError("outputs: exactly in place of the input, not beside it")
    return source, output


def meets(source: Layout, output: Layout) -> bool:
    """True where some element of the output is at the place of one of the input, and not all of them one by one."""
    if source.relation(output) != "overlap":
        return False
    return np.intersect1d(_places(source), _places(output) + shift(source, output)).size > 0


def _places(layout: Layout) -> NDArray[np.int64]:
    """Offsets of all elements from the first one."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(layout.shape, layout.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return offsets


def with_overlap(
    inputs: Mapping[str, Tensor], output: Output, source: str, distance: int
) -> tuple[dict[str, Tensor], Output]:
    """The output `distance` elements after the input `source`, which may have to move, and all in its memory too."""
    home = inputs[source].alias or source
    moved, over = overlapping(inputs[home].layout, output.layout, distance)
    together = {
        name: replace(tensor, layout=moved) if home in (name, tensor.alias) else tensor
        for name, tensor in inputs.items()
    }
    return together, replace(output, layout=over, alias=source)
