"""Bounds of shares, and of means weighted by shares, that hold however wrong the values are that shares are made from.

Each kernel subtracts its own largest value, however far off its values x are. So exp(x - max) is 1 for that value and
at most 1 for others, unless x is a product that is unrounded in the difference and rounded in the maximum: that moves
it by `slack`. The sum is at least that 1. With weights w that are not negative, the same in both sums, a kernel's mean
is sum w v (1 + d) / sum w (1 + e) = sum w' v (1 + d) / (1 + e), with w' = w (1 + e) / sum w (1 + e). That is a mean of
the v, each with errors d and e: so it lies between the least and the largest v, moved by these errors.

The half-width includes the first-order error besides, for the error of float64's centre, which the bounds do not cover.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from oracles.doubledouble import F64
from oracles.formula.affine.errors import either, marked
from oracles.formula.affine.forms import DUST, Edge, Form, Mask, replace
from oracles.formula.affine.operations import FAR
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along
from oracles.formula.exact.contraction import Axes, part
from oracles.formula.shares import Mean
from oracles.formula.trace import Node
from oracles.summation import rescalings

_OWN = 1 / 16
"""If a difference has a larger error in float64, its exponential says nothing about the exact one."""
_STEEPEST = 2.5
"""If weights are off by e^t with |t| up to 1/16, their mean moves by less than this times t of its values' range."""
_ROUNDINGS = 8
"""The most roundings of a mean of shares in addition to those of its sums and exponentials: of the arguments of sums
and of the quotient, of products, and of the quotient itself."""


_HALF = 0.5 + 2.0**-10
"""How far a mean may be moved by roundings of products with weights that are smallest numbers, see `hull`."""


def at_least(here: SettledProblem, node: Node, most: Node, forms: Mapping[Node, Form], found: Form) -> Form:
    """Return the form of a sum of exponentials, of which the largest is 1, with a lower bound."""
    if not _is_loose(found).any():
        return found
    values, axes = forms[most.args[0]], here.inputs.axes(node)
    off = _least_of_largest(values, here.slack(most.args[0], values), axes)
    worst = here.sum_errors(node, True)[1]
    with np.errstate(divide="ignore"):
        lost = np.log1p(-np.minimum(worst, 1.0)) - _of_exponentials(here, node, node.args[0], off)
        least = np.exp(lost - off) * (1 - DUST) - _vanishing(here, node)
    least = np.where(np.isfinite(off) & (least > 0), least, 0.0)
    return replace(found, least=least if found.least is None else np.fmax(found.least, least))


def _vanishing(here: SettledProblem, node: Node) -> float:
    """Return the largest amount that underflow may take from an exponential, or from the sum of exponentials."""
    exponential = node.args[0].args[0] if node.args[0].kind == "point" else node.args[0]
    formats = [here.dtype(node)] + ([here.dtype(exponential)] if node.kind != "online" else [])
    return max(each.tiny if here.contract.flushes_results else 2 * each.eta for each in formats)


def _is_loose(mass: Form) -> Mask:
    """Return the mask of sums of exponentials that their form hardly bounds."""
    return ~(mass.spread <= FAR * mass.centre)


def _least_of_largest(values: Form, off: F64, axes: Axes) -> F64:
    """Return how far below zero the largest difference of a row may lie in kernels, which each subtract their own
    maximum; infinite where the maximum is no number."""
    floor = np.where(np.isfinite(values.size), values.centre - values.spread, -np.inf).max(
        axes, keepdims=True, initial=-np.inf
    )
    among = values.centre + values.spread >= floor
    found = np.where(among, off, 0.0).max(axes, keepdims=True, initial=0.0)
    known = np.isfinite(floor) & ~(among & ~np.isfinite(values.size)).any(axes, keepdims=True)
    known &= ~np.isnan(values.centre).any(axes, keepdims=True)
    if (may := any_along(either([values]), axes)) is not None:
        known = known & ~may
    return np.where(known, found, np.inf)


def _of_exponentials(here: SettledProblem, node: Node, exponential: Node, off: F64) -> F64:
    """Return the logarithm of the error factor of a largest value's exponential, with its scale factors."""
    exponential = exponential.args[0] if exponential.kind == "point" else exponential
    label = exponential.label if exponential.kind == "function" else "exp"
    bound, u = here.contract.bound(label), _unit(here, (node, exponential))
    times = 1 + (rescalings(here.order(node), here.inputs.number(node)) if node.kind != "sum" else 0)
    with np.errstate(divide="ignore"):
        each = -math.log1p(-2 * u * bound.ulp) - math.log1p(-u) if 2 * u * bound.ulp < 1 else math.inf
    return times * each + 2 * u * bound.growth * off


def _unit(here: SettledProblem, nodes: Sequence[Node]) -> float:
    return max(here.format(here.contract.compute).u, *(here.dtype(node).u for node in nodes))


def within(here: SettledProblem, node: Node, mean: Mean, forms: Mapping[Node, Form], found: Form) -> Form:
    """Return the form of a share, or of a mean weighted by shares, between the least and the largest value."""
    mass = forms[mean.mass]
    loose = _is_loose(mass) & (found.spread > 0) & np.isfinite(found.centre)
    if mass.least is None or not loose.any():
        return found
    most = here.inputs.trace.shares.masses[mean.mass]
    values, axes = forms[most.args[0]], here.inputs.axes(most)
    off = _least_of_largest(values, here.slack(most.args[0], values), axes)
    exponential, apart = forms[mean.exponential], forms[mean.exponential.args[0]].spread
    low, high, wild = _hull(here, exponential, None if mean.value is None else forms[mean.value], axes)
    largest = np.maximum(np.abs(low), np.abs(high))
    moved = largest * _errors(here, node, mean, off) + _lost(here, node, mean) * (1 + largest) / mass.least
    far = np.where(exponential.size > 0, apart, 0.0).max(axes, keepdims=True, initial=0.0)
    first = _STEEPEST * far * (high - low)
    low, high = low - moved * (1 + DUST), high + moved * (1 + DUST)
    sure = loose & (mass.least > 0) & np.isfinite(off) & (far * here.own_share(here.wide) <= _OWN) & ~wild
    sure = sure & np.isfinite(low) & np.isfinite(high) & np.isfinite(first)
    if not sure.any():
        return found
    before = either([forms[each] for each in node.args])
    if node.kind not in ("divide", "multiply"):
        before = any_along(before, axes)
    else:  # the number that stands for an infinity's effect beside a pole is no mean
        sure = sure & np.isfinite(forms[node.args[0]].centre) & np.isfinite(forms[node.args[1]].centre)
    return _between(found, sure, low, high, first, marked(before, ~(largest + moved < here.dtype(node).limit)))


def hull(here: SettledProblem, node: Node, mean: Mean, forms: Mapping[Node, Form]) -> tuple[F64, F64] | None:
    """Return the least and the largest number that a mean may be, whatever its weights are, even where some overflow or
    vanish; None if its two sums have different weights or dtypes.

    A weight that is not zero is at least the smallest number, twice the possible rounding error of its product: if sums
    are not scaled again, that moves the mean by at most 1/2, else by at most 1/2 for each rounding. If the weights add
    up to infinity, the mean may be zero.
    """
    summed = [each for each in (mean.mass, mean.summed) if each is not None]
    if len({here.dtype(each) for each in (node, mean.exponential, *summed)}) > 1 or not _is_one(here, summed):
        return None
    mass, most = forms[mean.mass], here.inputs.trace.shares.masses[mean.mass]
    values, axes = forms[most.args[0]], here.inputs.axes(most)
    off = _least_of_largest(values, here.slack(most.args[0], values), axes)
    low, high, _ = _hull(here, forms[mean.exponential], None if mean.value is None else forms[mean.value], axes)
    largest = np.maximum(np.abs(low), np.abs(high))
    scaled = mean.mass.kind != "sum"
    lost = 8 * here.inputs.number(mean.mass) * (1 + largest) if scaled else np.full_like(largest, _HALF)
    if mass.least is not None:
        known = (mass.least > 0) & np.isfinite(off)
        lost = np.where(known, np.fmin(lost, _lost(here, node, mean) * (1 + largest) / mass.least), lost)
    errors = _errors(here, node, mean, off)
    moved = (largest * errors + lost) * (1 + DUST)
    vanishes = ~(mass.size < here.dtype(mean.mass).limit)
    if mean.summed is not node:  # values above 1 times these weights add up to infinity too
        vanishes = vanishes & (np.maximum(low, -high) <= (1 + errors) * (1 + DUST))
    low, high = low - moved, high + moved
    return np.where(vanishes, np.minimum(low, 0.0), low), np.where(vanishes, np.maximum(high, 0.0), high)


def _is_one(here: SettledProblem, summed: Sequence[Node]) -> bool:
    """Whether both sums have the same exponentials."""
    scaled = [each for each in summed if each.kind in ("online", "online_dot")]
    return not scaled or (len({*map(here.order, scaled)}) < 2 and all(each.kind == "online_dot" for each in summed))


def _between(found: Form, sure: Mask, low: F64, high: F64, first: F64, wild: Mask | None) -> Form:
    """Return the form of a value that certainly lies between two ends. Its rest includes the first-order error."""
    away = np.maximum(np.maximum(high - found.centre, found.centre - low), 0.0) + first
    less = sure & ~(away >= found.spread)
    rest = np.zeros((1,) * less.ndim) if found.rest is None else found.rest
    sign, no = np.where(np.signbit(found.centre), -1.0, 1.0), np.zeros(sure.shape, bool)
    ends = np.where(sure, sign * low, np.nan), np.where(sure, sign * high, np.nan)
    may = np.where(sure, no if wild is None else wild, no if found.may is None else found.may)
    return replace(
        found,
        parts={symbol: np.where(less, 0.0, each) for symbol, each in found.parts.items()},
        rest=np.where(less, away, rest),
        edge=Edge(no, no, np.minimum(*ends), np.maximum(*ends)),
        may=may if may.any() else None,
        overflows=None if found.overflows is None else found.overflows & ~sure,
    )


def _errors(here: SettledProblem, node: Node, mean: Mean, off: F64) -> F64:
    """Return the total of all errors of sums and products, as a share of the largest value."""
    summed = [each for each in (mean.mass, mean.summed) if each is not None]
    scaled = [each for each in summed if each.kind in ("online", "online_dot")]
    u, label = _unit(here, (node, mean.exponential, *summed)), mean.exponential.label
    points = [point for name in here.contract.points if (point := here.contract.point(name)) is not None]
    least = 2 * u * (_ROUNDINGS + 2 * here.contract.ulp("divide")) + 4 * sum(point.dtype.u for point in points)
    found = np.full((1,) * off.ndim, least)
    with np.errstate(divide="ignore"):
        for each in summed:
            found = found - np.log1p(-np.minimum(here.sum_errors(each, True)[1], 1.0))
    for each in scaled:
        found = found + rescalings(here.order(each), here.inputs.number(each)) * math.log1p(u)
    if not _is_one(here, summed):  # each sum has exponentials of its own
        least, growth = -math.log(here.dtype(mean.exponential).eta), here.contract.bound(label).growth
        for each in summed:
            found = found + _of_exponentials(here, each, mean.exponential, off) + u * least * (1 + 2 * growth) + off
    return np.asarray(np.expm1(np.minimum(found, 700.0)))


def _lost(here: SettledProblem, node: Node, mean: Mean) -> float:
    """Return the amount that underflow may take from both sums, or add to them, for values up to 1."""
    formats = [here.dtype(each) for each in (node, mean.mass, mean.exponential)]
    formats += [point.dtype for name in here.contract.points if (point := here.contract.point(name)) is not None]
    flushes = here.contract.denormals != "preserve" or bool(here.contract.flushing)
    unit = max(each.tiny if flushes else each.eta for each in formats)
    return unit * 4 * (3 + here.contract.ulp(mean.exponential.label)) * here.inputs.number(mean.mass)


def _hull(here: SettledProblem, exponential: Form, value: Form | None, axes: Axes) -> tuple[F64, F64, Mask]:
    """Return the least and the largest value with a weight (0 and 1 for shares), and where a value may be no number."""
    one = np.ones((1,) * exponential.centre.ndim)
    if value is None:
        return 0.0 * one, one, np.zeros(one.shape, bool)
    far = value.spread * (1 + DUST)
    ends = value.centre - far, value.centre + far
    seen, low, high = exponential.size != 0, np.inf * one, -np.inf * one
    if (marks := either([exponential])) is not None:  # it is zero where others do not overflow, or NaN
        seen = seen | marks
    for places in here.inputs.spans(np.broadcast_shapes(seen.shape, value.centre.shape), axes):
        among = part(seen, axes, places)
        lowest, highest = (part(each, axes, places) for each in ends)
        low = np.minimum(low, np.where(among, lowest, np.inf).min(axes, keepdims=True, initial=np.inf))
        high = np.maximum(high, np.where(among, highest, -np.inf).max(axes, keepdims=True, initial=-np.inf))
    wild = any_along(either([value]), axes)
    return low, high, np.zeros(one.shape, bool) if wild is None else wild
