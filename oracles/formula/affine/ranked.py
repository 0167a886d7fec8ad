"""Forms of selected elements: by an index, or by order, as the elements of a rank and the places where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as fields_replaced

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE
from oracles.formula.affine.errors import either, marked
from oracles.formula.affine.forms import DUST, ETA, Form, Mask, Symbol, replace
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along
from oracles.formula.exact.arithmetic import Float64, within
from oracles.formula.exact.centre import Order, order_of
from oracles.formula.node import EITHER, LAST, Node
from oracles.ranks import Ranks, RankWindow, at, exactly, window_of
from oracles.rounding import round_to

_NEXT = 0.5
_LOST = 2.0**-1000
"""A bound for values that underflow in float64; any other dtype rounds it to zero."""


def placed(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of places of a rank's elements: where kernels may disagree, any place is possible."""
    table, rank = args
    (axis,) = here.inputs.axes(node)
    if not here.inputs.extents[node.label]:
        return _of_nothing(table, rank, axis, 0.0)
    ranks, order = ranks_of(here, node, args), order_of(_values(here, node, table), axis, last=node.value == LAST)
    ranks = fields_replaced(ranks, doubt=_doubted(here, node, table, rank, order))
    centre = at(order, rank.centre.astype(np.int64), axis).astype(np.float64)
    if table.ranks is not None and _is_inverse(node):
        return _inverse(table.ranks, ranks, centre, _wild(table, axis))
    sure, count = ranks.certain(centre), order.shape[axis]
    rest = None if sure.all() else np.where(sure, 0.0, float(count - 1))
    bits = max(1, (count - 1).bit_length())
    return Form(centre, DOUBLE, bits, rest=rest, may=_wild(table, axis), ranks=ranks)


def _is_inverse(node: Node) -> bool:
    """Whether a node sorts the places of a sorted row, and so gives each of them its rank."""
    order = node.args[0].args[0] if node.args[0].kind == "negate" else node.args[0]
    whole = all(
        each.args[1].kind == "position" and each.args[1].label == each.label for each in (node, order) if each.args
    )
    return order.kind == "place" and node.args[0] is not order and order.label == node.label and whole


def _inverse(of: Ranks, ranks: Ranks, centre: F64, may: Mask | None) -> Form:
    """Return the form of the ranks of places: each is one that its element may have."""
    away = np.maximum(of.outer.last - centre, centre - of.outer.first)
    doubt = None if of.doubt is None else at(of.doubt, centre.astype(np.int64), of.axis)
    bits = max(1, (centre.shape[of.axis] - 1).bit_length())
    ranks = fields_replaced(ranks, doubt=doubt)
    return Form(centre, DOUBLE, bits, rest=away if away.any() else None, may=may, ranks=ranks)


def ranked(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of elements of a rank. If every kernel chooses the same element, the errors are its own; else
    they cover all elements that may have the rank."""
    table, rank = args
    (axis,) = here.inputs.axes(node)
    if not here.inputs.extents[node.label]:
        return _of_nothing(table, rank, axis, -np.inf)
    ranks, values = ranks_of(here, node, args), _values(here, node, table)
    order, places = order_of(values, axis), rank.centre.astype(np.int64)
    centre = at(order, places, axis).astype(np.float64)
    found = replace(took(here, node, [table, Form(centre, DOUBLE, rank.bits)]), may=_unordered(table, axis))
    sure = ranks.certain(centre)
    if sure.all():
        return found
    low, high = (at(-np.sort(-(values + side * ranks.far), axis), places, axis) for side in (-1.0, 1.0))
    away = np.maximum(high - found.centre, found.centre - low) * (1 + DUST)
    away = np.where(np.isfinite(found.centre), away, 0.0)
    zero = np.zeros((1,) * away.ndim)
    parts = {symbol: np.where(sure, each, 0.0) for symbol, each in found.parts.items()}
    rest = np.where(sure, zero if found.rest is None else found.rest, away)
    return replace(found, parts=parts, rest=rest, least=None)


def took(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of elements taken from a table by an index. If kernels may disagree about the index, any of the
    possible elements is allowed."""
    table, index, *other = args
    (axis,), none = here.inputs.axes(node), np.zeros((1,) * table.centre.ndim)
    places = here.inputs.own_places(index.centre, (axis,), Float64())
    count, outside = here.inputs.extents[node.label], other[0].centre if other else None

    def at(values: F64, outside: F64 | None = none if other else None) -> F64:
        if values.shape[axis] == 1 and count != 1:
            return values if outside is None else np.where(within(places, count), values, outside)
        return Float64().take(values, places, axis, outside)

    parts, rest = dict[Symbol, F64](), None if table.rest is None else at(table.rest)
    for symbol, coefficient in table.parts.items():
        if symbol.radius.shape[axis] == 1:
            parts[symbol] = at(coefficient)
        else:  # several results may be the same element
            errors = at(np.abs(coefficient) * symbol.radius)
            rest = errors if rest is None else rest + errors
    may, dtype, bits = either([table]), table.dtype, max(table.bits, *(each.bits for each in other), 1)
    if outside is not None and (round_to(outside, dtype) != outside).any():
        dtype = DOUBLE
    found = Form(
        at(table.centre, outside), dtype, bits if outside is None else min(bits, dtype.precision), parts, rest,
        None if may is None else at(may.astype(np.float64)) != 0,
        least=None if table.least is None else at(table.least, outside),
    )  # fmt: skip
    unsure = is_unsure(index)
    if index.may is None and not unsure.any():
        return found
    any_wild = any_along(may, (axis,))
    wild = marked(index.may, None if any_wild is None else unsure & any_wild)
    low, high = among(index, axis, table.centre - table.spread, table.centre + table.spread, outside)
    away = np.where(low < high, (high / 2 - low / 2) * (1 + DUST) + ETA, 0.0)
    unsure = unsure & (away > 0)
    parts = {symbol: np.where(unsure, 0.0, each) for symbol, each in found.parts.items()}
    rest = np.where(unsure, np.where(np.isnan(away), np.inf, away), none if found.rest is None else found.rest)
    centre = np.where(unsure, low + away, found.centre)  # both ends are sharp, like a value of every kernel
    return replace(found, centre=centre, parts=parts, rest=rest, may=marked(found.may, wild), least=None)


def ranks_of(here: SettledProblem, node: Node, args: Sequence[Form]) -> Ranks:
    """Return which ranks the elements of a table may have, in kernels and in exact arithmetic."""
    table, rank = args
    (axis,) = here.inputs.axes(node)
    values = _values(here, node, table)
    number = np.isfinite(values)
    far = np.where(number, np.broadcast_to(here.far(table), values.shape), 0.0)
    if not table.is_exact:  # where float64 underflows, kernels may have zeros, which are tied
        far = np.where(np.abs(values) <= _LOST, far + 2 * _LOST, far)
    own = np.where(number, _own(here, table), 0.0)
    inner, outer = (window_of(values - each, values + each, axis) for each in (far - own, far + own))
    ties = EITHER if here.contract.ties == "either" else node.value
    if ties != EITHER:
        alike = (far + own == 0).all(axis=axis, keepdims=True)
        ordered = exactly(order_of(values, axis, last=node.value == LAST), axis)
        inner, outer = (_where(alike, ordered, each) for each in (inner, outer))
    return Ranks(inner, outer, rank.centre, axis, far, ties)


def _doubted(here: SettledProblem, node: Node, table: Form, rank: Form, order: Order) -> Mask | None:
    """Return the mask of ranks at which float64 may have another element than the exact order has, or None."""
    own, values, (axis,) = _own(here, table), _values(here, node, table), here.inputs.axes(node)
    own = np.broadcast_to(np.where(np.isfinite(values), own, 0.0), values.shape)
    if not own.any():
        return None
    window = window_of(values - own, values + own, axis).at(order, axis)
    doubt: Mask = at(window.first != window.last, rank.centre.astype(np.int64), axis)
    return doubt if doubt.any() else None


def among(index: Form, axis: int, low: F64, high: F64, outside: F64 | None) -> tuple[F64, F64]:
    """Return the smallest and the largest value that a kernel may read with an uncertain index. If the index comes from
    a ranking along this axis, only elements that may have its rank count. If not, all elements as near as the index may
    be off count, and `outside`, the value for indices that are no place."""
    ranks, count = index.ranks, low.shape[axis]
    if ranks is not None and ranks.axis == axis and ranks.rank.shape[axis] == 1:
        possible = ranks.outer.holds(ranks.rank)
        low, high = np.where(possible, low, np.inf), np.where(possible, high, -np.inf)
        return low.min(axis=axis, keepdims=True, initial=np.inf), high.max(axis=axis, keepdims=True, initial=-np.inf)
    ends = np.ceil(index.centre - index.spread), np.floor(index.centre + index.spread)
    known = np.isfinite(index.centre) & np.isfinite(index.spread)
    first, last = (
        np.where(known, np.clip(end, 0, max(count - 1, 0)), wide).astype(np.int64)
        for end, wide in zip(ends, (0, max(count - 1, 0)), strict=True)
    )
    least, most = _extremes(first, last, axis, low, high)
    if ranks is None and outside is not None:
        away = ~known | (ends[0] < 0) | (ends[1] >= count)
        most, least = np.where(away, np.maximum(most, outside), most), np.where(away, np.minimum(least, outside), least)
    return least, most


def _extremes(first: Order, last: Order, axis: int, low: F64, high: F64) -> tuple[F64, F64]:
    """Return the smallest and the largest value from a first to a last place, by those of 1, 2, 4, ... neighbours."""
    if not low.shape[axis]:
        return np.full(first.shape, np.inf), np.full(first.shape, -np.inf)
    length, width = last - first + 1, 1
    least = most = np.zeros((1,) * low.ndim)
    while True:
        fits = (length >= width) & (length < 2 * width)
        ends = first, np.maximum(last - width + 1, 0)
        least = np.where(fits, np.minimum(*(at(low, each, axis) for each in ends)), least)
        most = np.where(fits, np.maximum(*(at(high, each, axis) for each in ends)), most)
        if (length < 2 * width).all():
            return least, most
        ahead = np.minimum(np.arange(low.shape[axis]) + width, low.shape[axis] - 1)
        low, high = np.minimum(low, low.take(ahead, axis)), np.maximum(high, high.take(ahead, axis))
        width *= 2


def is_unsure(index: Form) -> Mask:
    """Return the mask of indices that may be off by a half or more, and so may be another place in a kernel."""
    return np.asarray(index.spread >= _NEXT)


def _own(here: SettledProblem, table: Form) -> F64:
    """Return how far the elements in float64 may lie from the exact ones."""
    if table.is_exact and table.bits <= DOUBLE.precision:
        return np.zeros((1,) * table.centre.ndim)
    return here.far(table) * (here.own_share(False) + 2.0**-40) + np.abs(table.centre) * 2.0**-50 + _LOST


def _values(here: SettledProblem, node: Node, table: Form) -> F64:
    """Return the elements, with all places along the axis; NaN is 0 here, since nothing is claimed about its place."""
    dims, extents = here.inputs.trace.dims, here.inputs.extents
    shape = [extents[dim] if dim == node.label else size for dim, size in zip(dims, table.centre.shape, strict=True)]
    shape = [*np.broadcast_shapes(tuple(shape), table.spread.shape)]
    return np.broadcast_to(np.where(np.isnan(table.centre), 0.0, table.centre), shape)


def _wild(table: Form, axis: int) -> Mask | None:
    """Return the mask of rows with an element that is or may be NaN, which kernels sort in different ways."""
    nan = np.isnan(table.centre)
    return any_along(marked(either([table]), nan if nan.any() else None), (axis,))


def _unordered(table: Form, axis: int) -> Mask | None:
    """Return the mask of rows with an element that is or may be NaN, without rows of nothing but NaN."""
    wild, sure = _wild(table, axis), np.isnan(table.centre)
    if wild is None or not sure.any():
        return wild
    if table.may is not None:
        sure = sure & ~table.may
    return wild & ~np.logical_and.reduce(sure, axis, keepdims=True)


def _where(mask: Mask, a: RankWindow, b: RankWindow) -> RankWindow:
    return RankWindow(np.where(mask, a.first, b.first), np.where(mask, a.last, b.last))


def _of_nothing(table: Form, rank: Form, axis: int, value: float) -> Form:
    shape = table.centre.shape
    full = np.broadcast_shapes((*shape[:axis], 1, *shape[axis + 1 :]), rank.centre.shape)
    return Form(np.full(full, value), table.dtype, 1, may=np.ones(full, bool))
