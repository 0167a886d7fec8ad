"""Forms of linear recurrences, h(t) = a(t) h(t - 1) + b(t).

A kernel may take one place after the other, or blocks one after the other, or a tree, which multiplies the factors a of
a block before it knows h. In each case a term b(r) enters h(t) times the product of the a between, after t - r products
and one addition at each place between; a tree has one more addition at each of its levels. So with the magnitudes M(t)
= |a(t)| M(t - 1) + |b(t)|, in which nothing cancels, the error E is

    E(t) = |a(t)| E(t - 1) + (error of a) |h(t - 1)| + (error of b) + 2 u M(t),  and at last log2(t) u M(t) more.

This is the worst case, since rounding errors that repeat are not random. All errors are each element's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.formula.affine.errors import either, marked
from oracles.formula.affine.forms import DUST, Form, Mask, dust, upwards
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.summation import Sequential

_SLACK = 1 + 2.0**-20
"""A factor for what a product of 1 + u exceeds 1 plus the sum of u by, over as many places as a dimension has."""


@dataclass(frozen=True, eq=False)
class _State:
    """The state of the recurrence at one place."""

    centre: F64
    size: F64
    """The magnitude M."""
    error: F64
    grown: F64
    """The largest product of magnitudes of a up to here: over neighbouring places, or over any if nothing is added."""
    most: F64
    """The largest of the magnitudes and products so far."""


def recurrence(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of a recurrence."""
    (axis,), dtype = here.inputs.axes(node), here.dtype(node)
    count, one_by_one = here.inputs.extents[node.label], isinstance(here.order(node), Sequential)
    u = (dtype.u + dust(dtype)) * _SLACK
    lost = dtype.eta if here.contract.denormals == "preserve" else dtype.tiny
    a, b, start = args
    adds = any_along(~(b.size == 0), (axis,))  # adding nothing rounds nothing
    assert adds is not None
    shape = [*np.broadcast_shapes(*(each.centre.shape for each in args))]
    shape[axis] = count
    if not count:
        return Form(np.zeros(shape), dtype, dtype.precision)
    size = np.abs(start.centre) + start.spread
    least = np.maximum(size, 1.0)
    now = _State(start.centre, size, start.spread, np.where(adds, 1.0, least), least)
    step = _Step(dtype, u, adds, np.where(adds, 2.0, 1.0) * u, one_by_one)
    # The first value may have axes of one element that later values do not: these arrays have the full shape.
    centre, size, error, most = kept = [np.empty(shape) for _ in range(4)]
    with np.errstate(all="ignore"):
        wide, bulk = np.abs(a.centre) + a.spread, np.abs(b.centre) + b.spread
        each = zip(
            *(_places(values, axis, count) for values in (a.centre, a.spread, wide, b.centre, b.spread, bulk, *kept)),
            strict=True,
        )
        for *given, own_centre, own_size, own_error, own_most in each:
            now = step.next(now, *given)
            own_centre[...], own_size[...], own_error[...], own_most[...] = now.centre, now.size, now.error, now.most
    places = np.arange(1.0, count + 1.0).reshape([count if at == axis else 1 for at in range(centre.ndim)])
    if not one_by_one:
        error = error + np.where(adds, np.ceil(np.log2(places) + 1) * u * size, 0.0)
    # The underflow of at most two products at each place is multiplied by at most the largest product on any path.
    error = error + np.where(size > 0, 2 * places * lost * np.where(adds, most * most, most), 0.0)
    may = _from_here(marked(either(args), *(~np.isfinite(each.centre) for each in args)), centre.shape, axis)
    over = ~(most * (1 + 2 * u * (places + 1)) < dtype.limit)
    may = marked(may, over if over.any() else None, None if np.isfinite(centre).all() else ~np.isfinite(centre))
    error = np.where(np.isfinite(error), error, np.inf)
    if may is not None and here.contract.nonfinite == "ieee":
        sure = _settled(args, size.shape, axis, dtype)
        may, error = may & ~sure, np.where(sure, 0.0, error)
    centre, error = (here.inputs.filled_up(each, (axis,), Float64()) for each in (centre, error))
    may = None if may is None else here.inputs.filled_up(may.astype(np.float64), (axis,), Float64()) != 0
    may = None if may is None or not may.any() else may
    return Form(centre, dtype, dtype.precision, rest=error * (1 + DUST), may=may)


@dataclass(frozen=True, eq=False)
class _Step:
    """The step from one place to the next. There are thousands of places with few elements each, so only what must be
    calculated place by place is calculated here."""

    dtype: Format
    u: float
    adds: Mask
    rounds: F64
    """The roundings at a place, as a share of its magnitude."""
    one_by_one: bool

    @lazy
    def always(self) -> bool:
        """Whether each place adds something."""
        return bool(self.adds.all())

    def next(self, before: _State, factor: F64, off: F64, wide: F64, value: F64, more: F64, bulk: F64) -> _State:
        """Return the state at the next place, given centres, spreads and magnitudes of a and b."""
        u, adds = self.u, self.adds
        size = upwards(wide * before.size, self.dtype, wide, before.size) + bulk
        error = wide * before.error + off * np.abs(before.centre) + more
        centre = factor * before.centre + value
        if self.one_by_one:
            rounded = wide * (np.abs(before.centre) + before.error)
            rounded = u * rounded + np.where(adds, u * (np.abs(centre) + error + u * rounded), 0.0)
        else:
            rounded = self.rounds * size
        grown = np.maximum(before.grown, 1.0) * wide
        if not self.always:
            grown = np.where(adds, grown, before.grown * np.maximum(wide, 1.0))
        most = np.maximum(np.maximum(before.most, size), grown)
        return _State(centre, size * (1 + 2 * u), error + rounded, grown, most)


def _places(values: F64, axis: int, count: int) -> Iterable[F64]:
    """Yield the slice at each place along an axis, which is kept. An axis of one element is broadcast."""
    if values.shape[axis] == 1 and count != 1:
        return repeat(values, count)
    found: Iterable[F64] = np.expand_dims(np.moveaxis(values, axis, 0), axis + 1)
    return found


def _settled(args: Sequence[Form], shape: Sequence[int], axis: int, dtype: Format) -> Mask:
    """Return the mask of places where every kernel has the formula's NaN or infinity: from a given NaN on, and from an
    infinity on if no product of factors becomes zero or infinite on the way, and no sum of numbers overflows."""
    wild = marked(either(args), np.zeros((1,) * len(shape), bool))
    unsure = _from_here(wild, shape, axis)
    nan = _from_here(marked(*(np.isnan(each.centre) for each in args)), shape, axis)
    infinite = _from_here(marked(*(np.isinf(each.centre) for each in args[1:])), shape, axis)
    assert unsure is not None
    assert nan is not None
    assert infinite is not None
    if not infinite.any():
        return nan & ~unsure

    def along(operation: np.ufunc, values: F64) -> F64:
        return np.asarray(operation.accumulate(np.broadcast_to(values, shape), axis))

    factor, *terms = args
    grown = along(np.multiply, np.maximum(factor.size, 1.0))
    shrunk = along(np.multiply, np.minimum(np.maximum(np.abs(factor.centre) - factor.spread, 0.0), 1.0))
    value, start = (np.where(np.isfinite(each.size), each.size, 0.0) for each in terms)
    fits = (shrunk >= dtype.tiny) & (grown * (along(np.add, value) + start + 1.0) < dtype.limit / 2)
    return (nan | (infinite & fits)) & ~unsure


def _from_here(mask: Mask | None, shape: Sequence[int], axis: int) -> Mask | None:
    """Return the mask of places at or before which a mask is set."""
    if mask is None:
        return None
    found: Any = np.logical_or.accumulate(np.broadcast_to(mask, np.broadcast_shapes(mask.shape, tuple(shape))), axis)
    return np.asarray(found)
