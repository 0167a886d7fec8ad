"""Edges: bounds of values whose error bound says nothing, near overflow and near a pole.

If a sum of squares overflows in some kernels only, a kernel has one of two values: infinity or the sum, and after a
reciprocal root zero or the root's reciprocal. If some kernels round a mean of squares to zero, its reciprocal root may
be anything from some number up to infinity. Roots, products and quotients by numbers keep such bounds; other operations
mark the value as possibly anything. If kernels may lose much of a sum, its reciprocal root lies between two magnitudes,
one of them far closer to the exact value than the half-width says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.elementary.function import Elementary
from oracles.formula.affine.errors import either, marked, unfloored
from oracles.formula.affine.forms import Edge, Form, Mask, blended, replace
from oracles.formula.affine.operations import FAR
from oracles.formula.affine.reduced import REDUCED
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.trace import Node

_ARITHMETIC = ("add", "subtract", "multiply", "divide")
_CLEAR = 1 - 2.0**-10
"""If a spread is less than this share of a magnitude, float64 has their difference to nearly as many bits."""
OWN = 2.0**-38
"""The relative error of ends: they are float64 numbers made of sums that may be formed in another order."""


def carried(here: SettledProblem, node: Node, args: Sequence[Form], found: Form) -> Form:
    """Return the form of a node with bounds for its values near overflow and poles."""
    found = _edged(here, node, args, found)
    return _certain(args, found) if node.kind in _ARITHMETIC else found


def _edged(here: SettledProblem, node: Node, args: Sequence[Form], found: Form) -> Form:
    if node.kind == "function" and (node.function.power or 0.0) < 0 and args[0].edge is None:
        return _reciprocal(here, node.function, args[0], here.dtype(node), found)
    if node.kind == "sum":
        found = _summed(here, node, args[0], found)
    if node.kind in ("add", "divide") and len(args) == 2:  # a chain of additions has more
        found = _overflowing(node, args, found)
    edges = [each.edge for each in args if each.edge is not None]
    if not edges:
        return found
    if node.kind == "where" and not args[0].spread.any():
        found = replace(found, edge=blended(args[0].centre != 0, args[1], args[2]).edge)
        return unfloored(found, found.dtype, here.contract.flushes_operands)
    if node.kind == "multiply":
        return _multiplied(here.dtype(node), here.contract.flushes_results, args, found)
    lost = [each.lost for each in edges]
    if node.kind in REDUCED:
        lost = [np.logical_or.reduce(each, here.inputs.axes(node), keepdims=True) for each in lost]
    return replace(found, may=marked(found.may, *lost), edge=None)


def _certain(args: Sequence[Form], found: Form) -> Form:
    """Return the form, unmarked where an argument is NaN in every kernel: the result is NaN too."""
    if (may := found.may) is None:
        return found
    for each in args:
        wild, nothing = either([each]), np.isnan(each.centre)
        may = may & ~(nothing if wild is None else nothing & ~wild)
    return replace(found, may=may if may.any() else None)


def lowered(form: Form, dtype: Format, flushes: bool) -> Form:
    """Return the form with its edge moved by a rounding to a dtype, which may flush subnormal numbers."""
    if form.edge is None:
        return form
    floor, ceiling = _less(form.edge.floor, dtype), _more(form.edge.ceiling, dtype)
    return unfloored(replace(form, edge=Edge(form.edge.zero, form.edge.nan, floor, ceiling)), dtype, flushes)


@dataclass(frozen=True)
class Ends:
    """The lowest and the highest value of an output's elements; NaN where its centre and half-width say as much."""

    low: F64
    high: F64
    nan: Mask
    """Mask of elements that may also be NaN."""
    zero: Mask
    """Mask of elements that may also be zero."""

    def outwards(self, own: float) -> Iterator[F64]:
        """Yield both ends, each moved down and up by a share `own` of it, the possible error of float64."""
        for end, side in ((self.low, -1), (self.low, 1), (self.high, -1), (self.high, 1)):
            moved = np.abs(end)  # in place: a row may have millions of elements
            moved[np.isinf(moved)] = 0.0
            moved *= side * own
            moved += end
            yield moved


def ends(form: Form) -> Ends | None:
    """Return the ends of an output; None if its centre and half-width say as much."""
    if form.edge is None and form.overflows is None:
        return None
    shape = form.centre.shape
    no = np.zeros(shape, bool)
    unknown = np.full(shape, np.nan)
    edge = Edge(no, no, unknown, unknown) if form.edge is None else form.edge
    over = no if form.overflows is None else form.overflows
    positive, floored = ~np.signbit(form.centre), ~np.isnan(edge.floor)  # a centre of 0 may have underflowed
    size, spread, closed = np.abs(form.centre), form.spread * (1 + OWN), ~edge.open
    near = np.fmax(edge.floor, np.where(closed & (spread < size * _CLEAR), size - spread, np.nan))
    far = np.fmin(edge.ceiling, np.where(closed, size + spread, np.nan))
    # Where the edge says no more than the form, it is dropped: the form has more bits, in f64 twice as many.
    floored = floored & ~(closed & (near == size - spread) & (far == size + spread) & ~over)
    del size, spread  # a row may have millions of elements
    near, far = np.where(floored, near, np.nan), np.where(floored & ~over, far, np.where(over, np.inf, np.nan))
    low, high = np.where(positive, near, -far), np.where(positive, far, -near)
    return Ends(low, high, edge.nan | no, edge.zero | no)


def _reciprocal(here: SettledProblem, of: Elementary, arg: Form, dtype: Format, found: Form) -> Form:
    """Return the form of a negative power: perhaps 0 if the argument may overflow, without upper end if it may be 0."""
    if arg.least is None or of.power is None:
        return found
    infinite = np.zeros(arg.centre.shape, bool) if arg.overflows is None else arg.overflows & np.isfinite(arg.centre)
    pole = (arg.spread > 0) & (arg.lowest <= 0) & (arg.least >= 0) & np.isfinite(arg.size) & ~infinite
    if arg.may is not None:
        infinite, pole = infinite & ~arg.may, pole & ~arg.may
    wide = (arg.spread > FAR * arg.centre) & (arg.lowest > 0) & np.isfinite(arg.size) & np.isfinite(found.size)
    if not (infinite.any() or pole.any() or wide.any()):
        return found
    error = 2 * dtype.u * here.contract.ulp(of.name) / (1 - dtype.u) + OWN
    floor = (arg.centre + arg.spread) ** of.power * (1 - error)
    ceiling = arg.lowest**of.power * (1 + error)
    may = None if found.may is None else found.may & ~(infinite | pole)
    centre = np.where(pole & ~np.isfinite(found.centre), 1.0, found.centre)
    parts = {symbol: np.where(pole, 0.0, each) for symbol, each in found.parts.items()}
    rest = None if found.rest is None else np.where(pole, 0.0, found.rest)
    floor = np.where(pole | wide, np.maximum(floor - 2 * dtype.eta, 0.0), np.nan)
    ceiling = np.where(pole, np.inf, np.where(wide, ceiling + 2 * dtype.eta, np.nan))
    edge = Edge(infinite, np.zeros_like(pole), floor, ceiling)
    return replace(found, centre=centre, parts=parts, rest=rest, may=may, edge=edge)


def _multiplied(dtype: Format, flushes: bool, args: Sequence[Form], found: Form) -> Form:
    """Return the form of a product with a factor that has an edge. Where both have one, the product has none."""
    first, second = args
    if second.edge is None:
        return _product(dtype, flushes, first, second, found)
    of_second = _product(dtype, flushes, second, first, found)
    if first.edge is None:
        return of_second
    either = blended(first.edge.known, _product(dtype, flushes, first, second, found), of_second)
    neither = replace(found, may=marked(found.may, first.edge.lost, second.edge.lost), edge=None)
    return blended(first.edge.known & second.edge.known, neither, either)


def _product(dtype: Format, flushes: bool, edged: Form, other: Form, found: Form) -> Form:
    edge = edged.edge
    assert edge is not None
    least, zero = np.abs(other.centre) - other.spread, (other.centre == 0) & (other.spread == 0)
    floored = (edge.floor >= 0) & (edge.open | (least > 0))  # else the form says as much
    opened = floored & edge.open
    wild = np.zeros(found.centre.shape, bool) if (any_may := marked(other.may, other.overflows)) is None else any_may
    wild = wild | (floored & (least < 0)) | (edge.zero & ~np.isfinite(other.centre))
    floor = _less(edge.floor * np.maximum(least, 0.0), dtype)
    wild = wild | (floored & np.isnan(floor))
    floor = np.where(zero | wild | ~floored, np.nan, floor)
    nan = (edge.nan | (floored & (least <= 0))) & ~wild
    ceiling = np.where(np.isnan(floor), np.nan, _more(edge.ceiling * other.size, dtype))
    handled = (opened | edge.zero | edge.nan) & ~wild
    before = marked(edged.may, other.may)
    before = np.zeros_like(handled) if before is None else before
    may = None if found.may is None else (found.may & ~handled) | before
    wild = wild & (opened | edge.zero | edge.nan)
    found = replace(found, may=marked(may, wild), edge=Edge(edge.zero & ~wild, nan, floor, ceiling))
    return unfloored(found, dtype, flushes)


def _summed(here: SettledProblem, node: Node, terms: Form, found: Form) -> Form:
    """Return the form of a sum of terms that are never negative, so that no partial sum exceeds it: where it may
    overflow, it is infinite or as its form says."""
    if found.may is None or terms.least is None:
        return found
    axes = here.inputs.axes(node)
    known = (terms.least >= 0).all(axes, keepdims=True) & np.isfinite(found.centre)
    known = known & ((found.spread < found.centre) | (found.lowest > 0))
    if terms.may is not None:
        known = known & ~terms.may.any(axes, keepdims=True)
    over = found.may & known
    return replace(found, may=found.may & ~over, overflows=marked(found.overflows, over)) if over.any() else found


def _overflowing(node: Node, args: Sequence[Form], found: Form) -> Form:
    """Return the form of a value that may overflow, plus or divided by a number: an infinity, or as the form says."""
    for each, other in (args, args[::-1]) if node.kind == "add" else (args,):
        if each.overflows is None or found.may is None:
            continue
        number = np.isfinite(other.size) & ((found.spread < np.abs(found.centre)) | (found.lowest > 0))
        wild = marked(other.may, other.overflows, None if other.edge is None else other.edge.known)
        if wild is not None:
            number = number & ~wild
        if node.kind == "divide":
            number = number & (other.centre - other.spread > 0)
        over = each.overflows & number & (np.sign(found.centre) == np.sign(each.centre)) & np.isfinite(found.centre)
        if each.may is not None:
            over = over & ~each.may
        found = replace(found, may=found.may & ~over, overflows=marked(found.overflows, over))
    return found


def _less(floor: F64, dtype: Format) -> F64:
    """Return a least magnitude after two roundings: of an argument to the dtype, and of the result."""
    less = floor - np.abs(floor) * (2 * dtype.u + OWN) - 2 * dtype.eta
    return np.where(floor >= 0, np.maximum(less, 0.0), less)


def _more(ceiling: F64, dtype: Format) -> F64:
    """Return a largest magnitude after two roundings: of an argument to the dtype, and of the result."""
    found: F64 = ceiling * (1 + 2 * dtype.u + dtype.u**2 + OWN) + 2 * dtype.eta
    return np.where(found >= dtype.limit, np.inf, found)
