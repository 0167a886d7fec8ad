"""The input spec of `rms_norm`: what its cases look like."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from fuzz.case import CACHE_LINE, ITEMSIZE, Case, CaseError, Guard, Layout, Origin, Output, Tensor
from fuzz.generate.coverage import Label
from fuzz.generate.formats import from_bits
from fuzz.generate.layouts import LAYOUT_CLASSES, OVERLAPPING, lay_out
from fuzz.generate.recipes import Request, recipes
from fuzz.generate.shapes import BLOCKS, SWEPT_ROWS, offsets, row_counts, row_lengths
from fuzz.generate.stream import Stream

OP = "rms_norm"
DTYPES = ("f32", "f16")

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
    axis: int
    eps: float
    recipe: str
    x: Placement
    y: Placement
    in_place: bool
    seed: int

    def shape(self) -> tuple[int, ...]:
        """n along the axis to normalise, the rows spread over the other axes. Rank 1 has one row."""
        others = _factors(self.rows, self.rank - 1)
        return (*others[: self.axis], self.n, *others[self.axis :])


def _factors(rows: int, count: int) -> list[int]:
    """`count` numbers whose product is `rows`, none much larger than it must be."""
    factors = []
    for left in range(count, 0, -1):
        most = round(rows ** (1 / left))
        factor = rows if left == 1 else next((d for d in range(most, 1, -1) if rows % d == 0), 1)
        factors.append(factor)
        rows //= max(factor, 1)
    return factors


def _placements(itemsize: int, layouts: Sequence[str]) -> st.SearchStrategy[Placement]:
    guards: list[Guard] = ["after", "before"]
    return st.builds(
        Placement, st.sampled_from(layouts), st.integers(1, 19), st.sampled_from(guards), offsets(itemsize)
    )


# Built once: building a strategy costs more than drawing from it.
_DTYPES = st.sampled_from(["f32", "f32", "f16"])
_RANKS = st.sampled_from([2, 2, 2, 1, 3, 3, 4, 5])
_ROW_LENGTHS = row_lengths()
_EPS = st.sampled_from(EPS)
_RECIPE_NAMES = tuple(recipes())
_RECIPES = st.sampled_from(_RECIPE_NAMES)
_SEEDS = st.integers(0, 2**64 - 1)
_ONE_IN_FOUR = st.integers(0, 3).map(lambda i: i == 3)
_ONE_IN_SIX = st.integers(0, 5).map(lambda i: i == 5)
_ROW_WISE = ("contiguous", "pitched")
_WRITABLE = tuple(name for name in LAYOUT_CLASSES if name not in OVERLAPPING)
_FAST = {dtype: _placements(ITEMSIZE[dtype], _ROW_WISE) for dtype in ITEMSIZE}
_ANY_INPUT = {dtype: _placements(ITEMSIZE[dtype], tuple(LAYOUT_CLASSES)) for dtype in ITEMSIZE}
_ANY_OUTPUT = {dtype: _placements(ITEMSIZE[dtype], _WRITABLE) for dtype in ITEMSIZE}


@st.composite
def draws(draw: st.DrawFn) -> Draw:
    """Inputs of `rms_norm`."""
    dtype = draw(_DTYPES)
    n = draw(_ROW_LENGTHS)
    odd = draw(_ONE_IN_SIX)  # goes where only stride-aware kernels can follow
    rank = draw(_RANKS)
    return Draw(
        dtype=dtype,
        n=n,
        rows=1 if rank == 1 else draw(row_counts(n)),
        rank=rank,
        axis=draw(st.integers(0, rank - 1)) if odd else rank - 1,
        eps=draw(_EPS),
        recipe=draw(_RECIPES),
        x=draw((_ANY_INPUT if odd else _FAST)[dtype]),
        y=draw((_ANY_OUTPUT if odd else _FAST)[dtype]),
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


def steer(draw: Draw, hole: Label, turn: int) -> Draw:
    """The draw changed so that its case fills a hole of the coverage; `turn` varies what the hole leaves open.

    Where values decide (the position of a spike) the draw only makes it likely.
    """
    kind, what = hole
    row_wise = replace(draw, rank=2, axis=1, rows=max(draw.rows, 1))
    if kind == "n":
        return replace(draw, n=int(what))
    if kind.startswith("tail of "):
        return replace(draw, n=int(kind.removeprefix("tail of ")) * (1 + turn % 3) + int(what))
    if kind in ("x layout", "y layout"):
        place = {kind[0]: replace(getattr(draw, kind[0]), layout=what), "in_place": False}
        return replace(row_wise, rank=3, axis=2, n=max(draw.n, 2), rows=6, **place)
    if kind.startswith(("x alignment ", "y alignment ")):
        dtype = kind.split()[-1]
        place = {kind[0]: Placement("contiguous", 1, "before", int(what) // ITEMSIZE[dtype])}
        return replace(row_wise, dtype=dtype, in_place=False, **place)
    if kind == "axis":
        rank, axis = (int(part) for part in what.replace("of rank", "").split()[::-1])
        return replace(draw, rank=rank, axis=axis, rows=1 if rank == 1 else max(draw.rows, 1))
    if kind == "rows":
        return replace(row_wise, rows=int(what), n=min(draw.n, 300))
    if kind == "recipe":
        name, *position = what.split()
        return replace(row_wise, recipe=name, n=64 + turn % 64 if position else draw.n)
    changes = {"dtype": {"dtype": what}, "eps": {"eps": float(what)}, "in place": {"in_place": what == "yes"}}
    return replace(draw, **changes[kind])  # type: ignore[arg-type]


def space() -> Mapping[str, tuple[str, ...]]:
    """What a search should visit: the labels of each kind."""
    blocks = {f"tail of {block}": tuple(str(r) for r in range(block)) for block in BLOCKS}
    alignments = {
        f"{tensor} alignment {dtype}": tuple(str(byte) for byte in range(0, CACHE_LINE, ITEMSIZE[dtype]))
        for tensor in ("x", "y")
        for dtype in DTYPES
    }
    placed = ("spike", "one_nan", "one_inf")
    return {
        "dtype": DTYPES,
        "n": tuple(str(n) for n in range(SWEPT_ROWS + 1)),
        **blocks,
        "rows": ("0", "1", "2", "17"),
        "axis": tuple(f"{axis} of rank {rank}" for rank in range(1, 6) for axis in range(rank)),
        "x layout": tuple(LAYOUT_CLASSES),
        "y layout": _WRITABLE,
        **alignments,
        "in place": ("yes", "no"),
        "recipe": (
            *_RECIPE_NAMES,
            *(f"{name} {where}" for name in placed for where in ("first", "last", "tail", "body")),
        ),
        "eps": tuple(repr(eps) for eps in EPS),
    }


def _labels(draw: Draw, x: Tensor, y: Output) -> Iterator[Label]:
    """What one case visits; see `space`."""
    yield "dtype", draw.dtype
    yield "n", str(draw.n)
    for block in BLOCKS:
        if draw.n > block:
            yield f"tail of {block}", str(draw.n % block)
    yield "rows", str(draw.rows)
    yield "axis", f"{draw.axis} of rank {draw.rank}"
    yield "x layout", draw.x.layout
    yield "in place", "yes" if y.alias else "no"
    for name, tensor in (("x", x), ("y", y)):
        yield f"{name} alignment {draw.dtype}", str(tensor.layout.alignment(ITEMSIZE[draw.dtype]))
    if y.alias is None:
        yield "y layout", draw.y.layout
    yield "recipe", draw.recipe
    yield from (("recipe", f"{draw.recipe} {where}") for where in _positions(draw, x))
    yield "eps", repr(draw.eps)


def _positions(draw: Draw, x: Tensor) -> set[str]:
    """Where in its row a placed element lies: first, last, in what 64-element blocks leave over, or in the body."""
    if draw.recipe not in ("spike", "one_nan", "one_inf") or not x.bits:
        return set()
    values = from_bits(x.bits, draw.dtype, draw.shape()).astype(np.float64)
    rows = np.moveaxis(values, draw.axis, -1).reshape(-1, draw.n)
    columns = np.argmax(np.abs(rows) >= 16 if draw.recipe == "spike" else ~np.isfinite(rows), axis=1)
    found = (
        columns[np.abs(rows).max(axis=1) >= 16] if draw.recipe == "spike" else columns[~np.isfinite(rows).all(axis=1)]
    )
    body = draw.n - draw.n % 64
    return {
        "first" if c == 0 else "last" if c == draw.n - 1 else "tail" if c >= body else "body" for c in found.tolist()
    }


def realise(draw: Draw) -> Case:
    """The bit-exact case of a draw."""
    shape = draw.shape()
    recipe = recipes()[draw.recipe]
    rows = recipe.draw(Request(draw.rows, draw.n, draw.dtype, draw.eps), Stream(draw.seed))
    structured = recipe.structured
    if draw.x.layout == "expanded":
        rows = np.broadcast_to(rows[:1], rows.shape)
    elif draw.x.layout == "expanded_row":
        rows, structured = np.broadcast_to(rows[:, :1], rows.shape), True
    # Rows are drawn last-axis; moving the axis keeps every row's values together.
    outer = tuple(extent for a, extent in enumerate(shape) if a != draw.axis)
    values = np.moveaxis(rows.reshape(*outer, draw.n), -1, draw.axis)
    x = Tensor(draw.dtype, _layout(draw.x, shape, draw.axis), np.ascontiguousarray(values).tobytes())
    in_place = draw.in_place and draw.x.layout not in OVERLAPPING
    y = Output(draw.dtype, x.layout, "x") if in_place else Output(draw.dtype, _layout(draw.y, shape, draw.axis))
    return Case(
        op=OP,
        params={"eps": draw.eps, "axis": draw.axis},
        inputs={"x": x},
        outputs={"y": y},
        structured=structured,
        origin=Origin(draw.recipe, draw.x.layout, draw.seed, tuple(_labels(draw, x, y))),
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
