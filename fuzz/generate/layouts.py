"""Layouts: the named classes of strides, as pure functions of a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.case import Guard, Layout


@dataclass(frozen=True)
class LayoutClass:
    """A named way to lay out a tensor whose rows run along one axis."""

    name: str
    summary: str


CONTIGUOUS = LayoutClass("contiguous", "C order without gaps")
PITCHED = LayoutClass("pitched", "rows further apart than they are long")
COLUMN_STEP = LayoutClass("column_step", "every second or third element along the row")
TRANSPOSED = LayoutClass("transposed", "the row axis is not the fastest in memory")
REVERSED = LayoutClass("reversed", "rows run backwards in memory")

LAYOUT_CLASSES: Mapping[str, LayoutClass] = {
    layout.name: layout for layout in (CONTIGUOUS, PITCHED, COLUMN_STEP, TRANSPOSED, REVERSED)
}


def lay_out(name: str, shape: tuple[int, ...], axis: int, spread: int, guard: Guard, offset: int) -> Layout:
    """A layout of class `name` for rows along `axis`.

    `spread` (1 or more) says how far: the elements of gap between rows for 'pitched', the step minus one, between 1 and
    2, for 'column_step'. Other classes ignore it.
    """
    others = [a for a in reversed(range(len(shape))) if a != axis]
    if name == "pitched":
        strides = _nest(shape, [axis, *others], gap=spread)
    elif name == "column_step":
        strides = _nest(shape, [axis, *others], step=1 + (spread - 1) % 2 + 1)
    elif name == "transposed":
        strides = _nest(shape, [*others, axis])
    elif name == "reversed":
        strides = _nest(shape, [axis, *others])
        strides[axis] = -strides[axis]
    else:
        strides = _nest(shape, list(reversed(range(len(shape)))))
    return Layout(shape, tuple(strides), guard, offset)


def _nest(shape: tuple[int, ...], order: list[int], step: int = 1, gap: int = 0) -> list[int]:
    """Strides that nest the axes in `order`, fastest first, with `gap` elements after each run of the first."""
    strides = [0] * len(shape)
    reach = step
    for position, axis in enumerate(order):
        strides[axis] = reach
        reach *= max(shape[axis], 1)
        if position == 0:
            reach += gap
    return strides
