"""Forms of linear recurrences, h(t) = a(t) h(t - 1) + b(t).

A kernel may take one place after the other, or blocks one after the other, or a tree, which multiplies the factors a of
a block before it knows h. In each case a term b(r) enters h(t) times the product of the a between, after t - r products
and one addition at each place between; a tree has one more addition at each of its levels. So with the magnitudes M(t)
= |a(t)| M(t - 1) + |b(t)|, in which nothing cancels, the error E is

    E(t) = |a(t)| E(t - 1) + (error of a) |h(t - 1)| + (error of b) + 2 u M(t),  and at last log2(t) u M(t) more.

This is the worst case, since rounding errors that repeat are not random. All errors are each element's own.

Where a and the share s of the term x in b = s x add up to one, as in (1 - s) h + s x, a step may also be h + s (x - h):
both are the sum of h, -s h and s x, for contracts in which terms are added in any order. The difference, its product
with s, and a constant s may be rounded, so b is off by 3 u (|s h(t - 1)| + |b(t)|) more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.formula.affine.errors import either, marked
from oracles.formula.affine.forms import DUST, Form, Mask, dust, upwards
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.rigorous import along_axis, places_of
from oracles.formula.expansion import ONE
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.summation import Sequential

_SLACK = 1 + 2.0**-20
"""A factor for what a product of 1 + u exceeds 1 plus the sum of u by, over as many places as a dimension has."""


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
    steps = _Steps(
        a, b, start, dtype, u, adds, one_by_one, axis, shape, here.contract.addend == "any" and _is_mean(node)
    )
    with np.errstate(all="ignore"):
        kept = steps.centre[1:], steps.size[1:], steps.error, steps.most
        centre, size, error, most = (along_axis(each, axis) for each in kept)
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
class _Steps:
    """The steps from one place to the next. There are thousands of places with few elements each, so only what needs
    the place before is calculated place by place."""

    a: Form
    b: Form
    start: Form
    dtype: Format
    u: float
    adds: Mask
    one_by_one: bool
    axis: int
    shape: Sequence[int]
    """The shape of the result."""
    is_mean: bool
    """Whether a step may be made from the state towards the term."""

    @lazy
    def centre(self) -> F64:
        """Return the values h(t), shape (places + 1, ...). The start comes first."""
        found = self._begun(self.start.centre)
        for factor, value, before, now in zip(
            self._of(self.a.centre), self._of(self.b.centre), found[:-1], found[1:], strict=True
        ):
            np.add(np.multiply(factor, before, now), value, now)
        return found

    @lazy
    def size(self) -> F64:
        """Return the magnitudes M(t) that are carried on, shape (places + 1, ...). The start comes first."""
        found, more = self._begun(self._least), self._of(np.abs(self.b.centre) + self.b.spread) * self._carried
        for factor, before, added, now in zip(self._wide, found[:-1], more, found[1:], strict=True):
            product = upwards(np.multiply(factor, before, now), self.dtype, factor, before)
            np.add(np.multiply(product, self._carried, now), added, now)
        return found

    @lazy
    def error(self) -> F64:
        """Return bounds E(t) on the errors of h(t), see the module's docstring; shape (places, ...)."""
        before, centre = np.abs(self.centre[:-1]), np.abs(self.centre[1:])
        grown, more = self._wide, self._of(self.a.spread) * before + self._of(self.b.spread)
        if self.is_mean:
            share = self._of(np.abs(1.0 - self.a.centre) + self.a.spread)
            more = more + 3 * self.u * (share * before + self._of(np.abs(self.b.centre) + self.b.spread))
        if self.one_by_one:  # the rounding of a product, and of the sum of all that it and the term may be
            twice = np.where(self.adds, 1 + self.u, 1.0)
            more = (more + self.u * grown * before) * twice + np.where(self.adds, self.u * centre, 0.0)
            grown = grown * ((1 + self.u) * twice)
        else:
            more = more + np.where(self.adds, 2.0, 1.0) * self.u * (self.size[1:] / self._carried)
        found = self._begun(self.start.spread)
        for factor, last, added, now in zip(grown, found[:-1], more, found[1:], strict=True):
            np.add(np.multiply(factor, last, now), added, now)
        return found[1:]

    @lazy
    def most(self) -> F64:
        """Return the largest magnitude up to each place, and the largest product of the magnitudes of a up to there,
        over neighbours or any places."""
        least, always = np.maximum(self._least, 1.0), bool(self.adds.all())
        found = self._begun(np.where(self.adds, 1.0, least))
        for factor, before, now in zip(self._wide, found[:-1], found[1:], strict=True):
            np.multiply(np.maximum(before, 1.0), factor, now)
            if not always:
                np.copyto(now, before * np.maximum(factor, 1.0), where=~self.adds)
        most = self._begun(least)
        np.maximum(self.size[1:] / self._carried, found[1:], out=most[1:])
        return np.asarray(np.maximum.accumulate(most))[1:]

    @property
    def _carried(self) -> float:
        return 1 + 2 * self.u

    @lazy
    def _wide(self) -> F64:
        return self._of(np.abs(self.a.centre) + self.a.spread)

    @lazy
    def _least(self) -> F64:
        return np.abs(self.start.centre) + self.start.spread

    def _of(self, values: F64) -> F64:
        return places_of(values, self.axis, self.shape[self.axis])

    def _begun(self, first: F64) -> F64:
        """Return an array of shape (places + 1, ...) with `first` at its start; the rest is not set."""
        found = np.empty((self.shape[self.axis] + 1, *self.shape[: self.axis], 1, *self.shape[self.axis + 1 :]))
        found[0] = first
        return found


def _is_mean(node: Node) -> bool:
    """Whether the factor of a recurrence and a factor of its addend add up to one."""
    factor, value, _ = node.args
    return _rest(factor) is not None or any(
        _rest(each) is factor
        or (each.kind == factor.kind == "constant" and each.value > 0 and abs(each.value + factor.value - 1) < ONE)
        for each in _factors(value)
    )


def _rest(node: Node) -> Node | None:
    """Return the s of 1 - s; None for other values."""
    if node.kind not in ("add", "subtract") or not (node.args[0].kind == "constant" and node.args[0].value == 1.0):
        return None
    if node.kind == "subtract":
        return node.args[1]
    sign, *others = _factors(node.args[1])
    return others[0] if len(others) == 1 and sign.kind == "constant" and sign.value == -1.0 else None


def _factors(node: Node) -> Sequence[Node]:
    return [each for arg in node.args for each in _factors(arg)] if node.kind == "multiply" else [node]


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
