"""The input spec of `rms_norm`: what its cases look like."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from fuzz.case import ITEMSIZE, Case, CaseError, Guard, Layout, Origin, Output, Tensor
from fuzz.generate.layouts import LAYOUT_CLASSES, lay_out
from fuzz.generate.recipes import Request, recipes
from fuzz.generate.shapes import offsets, row_counts, row_lengths
from fuzz.generate.stream import Stream

OP = "rms_norm"

EPS = tuple(
    float(np.float32(e)) for e in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
)
"""as float32 numbers, since kernels take eps in float32."""


@dataclass(frozen=True)
class Placement:
    """Where one tensor goes: the layout class and its details."""

    layout: str
    spread: int
    guard: Guard
    offset: int


@dataclass(frozen=True)
class Draw:
    """One drawn input, before its values are filled in."""

    dtype: str
    n: int
    rows: int
    rank: int
    axis_last: bool
    eps: float
    recipe: str
    x: Placement
    y: Placement
    in_place: bool
    seed: int

    def shape(self) -> tuple[tuple[int, ...], int]:
        """The tensor's shape and the axis to normalise."""
        if self.rank == 1:
            return (self.n,), 0
        if self.rank == 2:
            return ((self.rows, self.n), 1) if self.axis_last else ((self.n, self.rows), 0)
        outer = next(d for d in range(math.isqrt(self.rows), 0, -1) if self.rows % d == 0)
        inner = self.rows // outer
        return ((outer, inner, self.n), 2) if self.axis_last else ((outer, self.n, inner), 1)


def _placements(itemsize: int, layouts: Sequence[str]) -> st.SearchStrategy[Placement]:
    guards: list[Guard] = ["after", "before"]
    return st.builds(
        Placement, st.sampled_from(layouts), st.integers(1, 19), st.sampled_from(guards), offsets(itemsize)
    )


# Built once: building a strategy costs more than drawing from it.
_DTYPES = st.sampled_from(["f32", "f32", "f16"])
_RANKS = st.sampled_from([2, 2, 2, 1, 3])
_ROW_LENGTHS = row_lengths()
_EPS = st.sampled_from(EPS)
_RECIPE_NAMES = tuple(recipes())
_RECIPES = st.sampled_from(_RECIPE_NAMES)
_SEEDS = st.integers(0, 2**64 - 1)
_ONE_IN_FOUR = st.integers(0, 3).map(lambda i: i == 3)
_ONE_IN_SIX = st.integers(0, 5).map(lambda i: i == 5)
_FAST = {dtype: _placements(ITEMSIZE[dtype], ("contiguous", "pitched")) for dtype in ("f32", "f16")}
_ANY = {dtype: _placements(ITEMSIZE[dtype], tuple(LAYOUT_CLASSES)) for dtype in ("f32", "f16")}


@st.composite
def draws(draw: st.DrawFn) -> Draw:
    """Inputs of `rms_norm`."""
    dtype = draw(_DTYPES)
    n = draw(_ROW_LENGTHS)
    odd = draw(_ONE_IN_SIX)  # goes where only stride-aware kernels can follow
    rank = draw(_RANKS)
    placements = (_ANY if odd else _FAST)[dtype]
    return Draw(
        dtype=dtype,
        n=n,
        rows=1 if rank == 1 else draw(row_counts(n)),
        rank=rank,
        axis_last=not (odd and draw(st.booleans())),
        eps=draw(_EPS),
        recipe=draw(_RECIPES),
        x=draw(placements),
        y=draw(placements),
        in_place=draw(_ONE_IN_FOUR),
        seed=draw(_SEEDS),
    )


def fan_out(draw: Draw, salt: int, count: int) -> Iterator[Draw]:
    """`count` relatives of a draw: same layouts, but their own row length nearby, recipe, eps and values.

    `salt` sets apart draws that Hypothesis repeats. The relatives differ from one another in the residue of n, which is
    what tails depend on.
    """
    for index in range(count):
        stream = Stream(draw.seed).child(f"{salt}/{index}")
        recipe, eps, step = (int(word) for word in stream.words(3))
        yield replace(
            draw,
            n=draw.n if index == 0 else max(1, draw.n + step % 33 - 16),
            recipe=draw.recipe if index == 0 else _RECIPE_NAMES[recipe % len(_RECIPE_NAMES)],
            eps=draw.eps if index == 0 else EPS[eps % len(EPS)],
            seed=stream.key,
        )


def swept(draw: Draw, n: int) -> Draw:
    """The same draw with another row length."""
    return replace(draw, n=n)


def realise(draw: Draw) -> Case:
    """The bit-exact case of a draw."""
    shape, axis = draw.shape()
    recipe = recipes()[draw.recipe]
    rows = recipe.draw(Request(draw.rows, draw.n, draw.dtype, draw.eps), Stream(draw.seed))
    # Rows are drawn last-axis; moving the axis keeps every row's values together.
    outer = tuple(extent for a, extent in enumerate(shape) if a != axis)
    values = np.moveaxis(rows.reshape(*outer, draw.n), -1, axis)
    x = Tensor(draw.dtype, _layout(draw.x, shape, axis), np.ascontiguousarray(values).tobytes())
    y = Output(draw.dtype, x.layout, "x") if draw.in_place else Output(draw.dtype, _layout(draw.y, shape, axis))
    return Case(
        op=OP,
        params={"eps": draw.eps, "axis": axis},
        inputs={"x": x},
        outputs={"y": y},
        structured=recipe.structured,
        origin=Origin(draw.recipe, draw.x.layout, draw.seed),
    )


def _layout(place: Placement, shape: tuple[int, ...], axis: int) -> Layout:
    return lay_out(place.layout, shape, axis, place.spread, place.guard, place.offset)


def check(case: Case) -> None:
    """Raise CaseError, naming the field, where a case does not fit this op."""
    for kind, found, wanted in (("inputs", case.inputs, {"x"}), ("outputs", case.outputs, {"y"})):
        if set(found) != wanted:
            raise CaseError(f"{kind}: {OP} has {', '.join(wanted)}, not {', '.join(found) or 'none'}")
    x, y = case.inputs["x"], case.outputs["y"]
    if (x.dtype, x.layout.shape) != (y.dtype, y.layout.shape):
        raise CaseError("outputs.y: must have the dtype and shape of inputs.x")
    rank, axis, eps = len(x.layout.shape), case.params.get("axis"), case.params.get("eps")
    if not isinstance(axis, int) or not 0 <= axis < rank:
        raise CaseError(f"params.axis: {axis!r} is not an axis of a tensor of rank {rank}")
    if not isinstance(eps, float) or not (eps >= 0 and math.isfinite(eps)) or float(np.float32(eps)) != eps:
        raise CaseError(f"params.eps: {eps!r} is not a finite float32 number of 0 or more")
