"""Outputs of places: at each rank, any place whose element may have that rank is right, but no place may come twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import mpmath
import numpy as np

from oracles.doubledouble import F64, LOST, ULP, DoubleDouble
from oracles.dtypes import DOUBLE, DTYPES, Format, Integer
from oracles.enclosure import ALLOWED, Enclosure, Mask, PlaceSet
from oracles.formula.affine.budget import SAME
from oracles.formula.affine.forms import Form
from oracles.formula.exact.centre import dense, order_of
from oracles.formula.node import EITHER, LAST
from oracles.precise import Bounds
from oracles.ranks import Ranks, RankWindow, exactly, window_of
from oracles.tiers.values import OutputValues


def enclosure_of(outputs: OutputValues, output: str, kept: Form, dtype: Format) -> Enclosure:
    """Return the conformance sets of an output of places."""
    assert kept.ranks is not None
    centre, sizes = outputs.shaped(output, kept.centre), outputs.inputs.extents
    full = tuple(sizes[dim] if dim in outputs.axes(output) else 1 for dim in outputs.inputs.trace.dims)
    nothing, ends = np.zeros(centre.shape), (centre, centre)
    ranks = _known_better(outputs, output, kept.ranks) if outputs.wide else kept.ranks
    return Enclosure(
        dtype, centre, nothing, nothing, ends, ends, unjudged=_unjudged(outputs, output, kept),
        places=(PlaceSet(ranks, full),),
    )  # fmt: skip


def _known_better(outputs: OutputValues, output: str, ranks: Ranks) -> Ranks:
    """Return the ranks of elements as double-double gives them, for kernels in float64: there the error of a float64
    centre is as large as the errors of kernels."""
    table = outputs.made(output).args[0]
    values, form = outputs.wide_value(table), outputs.budget.forms[table]
    if not isinstance(values, DoubleDouble) or (form.is_exact and form.bits <= DOUBLE.precision):
        return ranks
    far, number = ranks.far, np.isfinite(values.high)
    values = DoubleDouble(np.where(np.isnan(values.high), 0.0, values.high), np.where(number, values.low, 0.0))
    bound = table.function.double.bound.relative if table.kind == "function" else 0.0
    own = far * (outputs.budget.own_share(True) + SAME) + np.abs(values.high) * (2 * max(ULP, bound)) + LOST
    own = np.where(number, own, 0.0)
    inner, outer = (window_of(values - each, values + each, ranks.axis) for each in (far - own, far + own))
    return replace(ranks, inner=inner, outer=outer)


def _unjudged(outputs: OutputValues, output: str, kept: Form) -> Mask | None:
    """Return the mask of elements that are not judged, or None: a NaN may be selected, or the dtype lacks the place."""
    integer = DTYPES[outputs.outputs[output]]
    highest = integer.highest if isinstance(integer, Integer) else 2**24
    beyond = outputs.shaped(output, kept.centre + kept.spread) > highest
    found = beyond if kept.may is None else beyond | outputs.shaped(output, kept.may)
    return found if found.any() else None


def bounds_of(outputs: OutputValues, output: str, at: Sequence[int], kept: Form, dtype: Format) -> Bounds:
    """Return the bounds of one element of an output of places: its place in the exact order, and all places that
    correct kernels may return instead, from the exact values of all elements along the axis."""
    ranks, marked = kept.ranks, _unjudged(outputs, output, kept)
    assert ranks is not None
    if marked is not None and marked[tuple(at)]:
        return Bounds(dtype, mpmath.mpf(0), -mpmath.inf, mpmath.inf, ALLOWED)
    row, rank = _row(outputs, output, outputs.place(output, at), ranks)
    members = tuple(np.flatnonzero((row.window.first <= rank) & (rank <= row.window.last)).tolist())
    centre, low, high = map(mpmath.mpf, (row.order[rank], min(members), max(members)))
    vanished = outputs.exactly(output)[0].vanished
    return Bounds(dtype, centre, low, high, integer=True, members=members, vanished=vanished)


class RowOrder(NamedTuple):
    """The exact order of the elements along an axis, with the ranks that kernels may give them."""

    order: list[int]
    window: RankWindow


def _row(outputs: OutputValues, output: str, place: Mapping[str, int], ranks: Ranks) -> tuple[RowOrder, int]:
    """Return the order of the elements along the ranked axis, and the rank of the element that is at this place."""
    exact, node = outputs.exactly(output)
    while node.kind == "point":
        (node,) = node.args
    dims = exact.inputs.trace.dims

    def there(shape: tuple[int, ...]) -> list[int]:
        return [place.get(dim, 0) if size > 1 else 0 for dim, size in zip(dims, shape, strict=True)]

    rank = int(ranks.rank[tuple(there(ranks.rank.shape))])
    others = {dim: at for dim, at in place.items() if dim != node.label and dim in node.args[0].dims}
    key = output, tuple(others.values()), mpmath.mp.prec
    if key not in outputs.rows:
        count = exact.inputs.extents[node.label]
        values = [_element(exact.element(node.args[0], {**others, node.label: at})) for at in range(count)]
        along: list[Any] = [*there(ranks.far.shape)]
        along[ranks.axis] = slice(None)
        outputs.rows[key] = _ordered(values, ranks.far[tuple(along)], ranks.ties)
    return outputs.rows[key], rank


def _ordered(values: Sequence[mpmath.mpf], far: F64, ties: float) -> RowOrder:
    keys = dense(values)
    order = order_of(keys, 0, last=ties == LAST)
    if not far.any():
        return RowOrder(order.tolist(), exactly(order, 0) if ties != EITHER else window_of(keys, keys, 0))
    ends = [value + side * each for side in (-1, 1) for value, each in zip(values, far.tolist(), strict=True)]
    low, high = np.split(dense(ends), 2)
    return RowOrder(order.tolist(), window_of(low, high, 0))


def _element(value: mpmath.mpf) -> mpmath.mpf:
    return mpmath.mpf(0) if mpmath.isnan(value) else value
