"""Outcomes: the possible values of elements that no form bounds: numbers between two ends, infinities, and NaN.

A value that overflows in some kernels only is an infinity, NaN, or a number that its form encloses, but no other
number. Intervals bound the results of such values, with IEEE arithmetic for infinities and NaN: x / inf is 0, tanh(inf)
is 1, and 0 inf is NaN. Errors never cancel in intervals, so forms are used wherever they bound a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.enclosure import MINUS, PLUS
from oracles.formula.affine import edges
from oracles.formula.affine.forms import Form, Mask, replace
from oracles.formula.affine.narrowing import holds
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.signs import Signs
from oracles.formula.affine.weighted import hull
from oracles.formula.chains import Chain
from oracles.formula.contract import RoundingPoint
from oracles.formula.exact.contraction import part
from oracles.formula.trace import Node
from oracles.rounding import round_to

NAN = 4
_EITHER, _ALL = PLUS | MINUS, PLUS | MINUS | NAN
_OWN = 2.0**-48
"""The largest relative error that float64 adds to an end in each operation."""
_CENTRE = 2.0**-12
"""The largest error of a float64 centre as a share of kernels' errors, as in `oracles.formula.affine.errors`."""
_MOST = float(np.finfo(np.float64).max)
_CHOOSING = "where", "negate", "point"
"""Operations that use intervals even if exponents are unbounded, since they pass on the ends of means of shares."""


@dataclass(frozen=True, eq=False)
class PossibleValues:
    """The values that elements may have. Arrays broadcast against each other."""

    low: F64
    high: F64
    """`low` and `high` are the lowest and the highest possible number; `low` is larger if no number is possible."""
    others: NDArray[np.uint8]
    """Bits for +inf, -inf and NaN, if elements may have them too: `PLUS`, `MINUS` and `NAN`."""
    least: F64 | None = None
    """The least magnitude of the possible numbers, if the ends do not show it. If s overflows to either side, for
    example, tanh(s) is -1 or 1 and nothing between. None: it follows from the ends."""

    @property
    def nearest(self) -> F64:
        """The least magnitude of the possible numbers; infinite if no number is possible."""
        crosses = (self.low <= 0) & (self.high >= 0)
        found = np.where(crosses, 0.0, np.minimum(np.abs(self.low), np.abs(self.high)))
        return found if self.least is None else np.maximum(found, self.least)

    @property
    def is_one(self) -> Mask:
        """Mask of elements whose possible numbers are all 1 or -1."""
        return np.asarray((self.nearest == 1) & (self.low >= -1) & (self.high <= 1))

    @property
    def numbers(self) -> Mask:
        """Mask of elements for which a number is possible."""
        return np.asarray(self.low <= self.high)

    def has(self, flag: int) -> Mask:
        """Return the mask of elements for which one of these flags is possible."""
        return np.asarray((self.others & flag) != 0)

    @property
    def signs(self) -> tuple[Mask, Mask, Mask]:
        """Masks of elements that may be below zero, zero, and above zero."""
        some = self.numbers
        below, above = (some & (self.low < 0)) | self.has(MINUS), (some & (self.high > 0)) | self.has(PLUS)
        return below, some & (self.low <= 0) & (self.high >= 0), above

    @property
    def arrays(self) -> Sequence[NDArray[Any]]:
        """The ends and the other possible values, all of one shape."""
        own = np.broadcast_shapes(self.low.shape, self.high.shape, self.others.shape)
        return [np.broadcast_to(each, own) for each in (self.low, self.high, self.others)]

    def either(self, other: PossibleValues, where: Mask | bool = True) -> PossibleValues:
        """Return the union of these values and, in the places of a mask, those of `other`."""
        low, high = np.where(where, other.low, np.inf), np.where(where, other.high, -np.inf)
        others = np.where(where, other.others, 0).astype(np.uint8)
        least = np.minimum(self.nearest, np.where(where, other.nearest, np.inf))
        return PossibleValues(np.minimum(self.low, low), np.maximum(self.high, high), self.others | others, least)

    def chosen(self, where: Mask, other: PossibleValues) -> PossibleValues:
        """Return these values in the places of a mask, and `other` elsewhere."""
        low, high = np.where(where, self.low, other.low), np.where(where, self.high, other.high)
        least = np.where(where, self.nearest, other.nearest)
        return PossibleValues(low, high, np.where(where, self.others, other.others), least)


def _between(
    low: F64, high: F64, some: Mask | bool, others: NDArray[np.uint8] | int, least: F64 | None = None
) -> PossibleValues:
    """Return possible values: the numbers between two ends where the mask `some` is set, and `others` everywhere."""
    unknown = np.isnan(low) | np.isnan(high)
    low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
    flags = np.broadcast_to(np.asarray(others, np.uint8), np.broadcast_shapes(np.shape(others), low.shape))
    return PossibleValues(np.where(some, low, np.inf), np.where(some, high, -np.inf), flags, least)


def _flags(plus: Mask, minus: Mask, nan: Mask) -> NDArray[np.uint8]:
    return np.asarray(plus * PLUS + minus * MINUS + nan * NAN, np.uint8)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The possible values of all nodes of a formula, each computed when it is asked for."""

    here: SettledProblem
    forms: Mapping[Node, Form]
    chains: Mapping[Node, Chain]
    pointed: Callable[[Node], RoundingPoint | None]
    signs: Signs
    _found: dict[Node, PossibleValues] = field(default_factory=dict)

    def __getitem__(self, node: Node) -> PossibleValues:
        if node not in self._found:
            self._found[node] = self._outcome(node)
        return self._found[node]

    def _outcome(self, node: Node) -> PossibleValues:
        found, mean = self._made(node), self.here.inputs.trace.shares.means.get(node)
        if mean is None or (ends := hull(self.here, node, mean, self.forms)) is None:
            return found
        low, high = np.fmax(found.low, ends[0]), np.fmin(found.high, ends[1])  # NaN: there is no hull
        others = np.where(found.numbers & self.here.endless, 0, found.others)  # numbers then give no infinity
        return PossibleValues(low, high, others.astype(np.uint8))

    def _made(self, node: Node) -> PossibleValues:
        form, told = self.forms[node], self._told(node)
        marked = np.zeros((1,) * form.centre.ndim, bool) if form.may is None else form.may
        make = _MAKERS.get(node.kind) if node.kind in _CHOOSING or not self.here.endless else None
        if node.kind in ("sum", "dot") and not self.here.endless:
            # if only the sum itself overflows, its numbers are those of the form
            fresh = ~_any_along(self._are_marked(node), self.here.inputs.axes(node))
            over = _between(told.low, told.high, told.numbers, _ALL)
            return told.chosen(~marked, over.chosen(fresh, self._summed(node, marked & ~fresh)))
        if not node.args or node in self.chains or make is None:
            return told.chosen(~marked, _anything(form)) if marked.any() else told
        made = self._limited(node, make(self, node, [self._taken(node, arg) for arg in node.args]))
        both = PossibleValues(np.maximum(told.low, made.low), np.minimum(told.high, made.high), told.others)
        return made.chosen(marked, both)

    def _told(self, node: Node) -> PossibleValues:
        """Return the possible values of a node by its form. They hold only where the form has no mark."""
        form = self.forms[node]
        away = np.where(form.spread > 0, form.spread * (1 + _CENTRE) + np.abs(form.centre) * _OWN, form.spread)
        number = np.isfinite(form.centre)
        low, high = form.centre - away, form.centre + away
        low = low if form.least is None else np.fmax(low, form.least)
        others = _flags(np.isposinf(form.centre), np.isneginf(form.centre), np.isnan(form.centre))
        if form.overflows is not None:
            over = form.overflows & number
            others = others | _flags(over & (form.centre > 0), over & (form.centre < 0), over & (form.centre == 0))
        if form.edge is not None and (ends := edges.ends(replace(form, overflows=None))) is not None:
            own = 1 + np.array([-_OWN, _OWN])
            low, high = (np.where(np.isnan(end), known, end) for end, known in ((ends.low, low), (ends.high, high)))
            low, high = np.minimum(low * own[0], low * own[1]), np.maximum(high * own[0], high * own[1])
            low = np.where(ends.zero, np.minimum(low, 0.0), low)
            high = np.where(ends.zero, np.maximum(high, 0.0), high)
            others = others | _flags(np.isposinf(high) & number, np.isneginf(low) & number, ends.nan)
        return _between(low, high, number, others)

    def _are_marked(self, node: Node) -> Mask:
        """Return the mask of elements with an argument that `Form.may` marks, or that is wrong without its edge."""
        found = np.zeros((1,) * len(self.here.inputs.trace.dims), bool)
        for form in (self.forms[arg] for arg in node.args):
            for mask in (form.may, form.overflows, None if form.edge is None else form.edge.lost):
                found = found if mask is None else found | mask
        return found

    def _summed(self, node: Node, among: Mask) -> PossibleValues:
        """Return the possible sums of terms that may each overflow by themselves."""
        if not among.any():
            return _anything(self.forms[node])
        axes, inputs = self.here.inputs.axes(node), self.here.inputs
        args = [self[arg] for arg in node.args] if node.kind == "sum" else [self._taken(node, arg) for arg in node.args]
        full = np.broadcast_shapes(*(np.broadcast_shapes(each.low.shape, each.others.shape) for each in args))
        narrow, wide = ([axis for axis in axes if (full[axis] == 1) == alike] for alike in (True, False))
        count = inputs.count(tuple(narrow))

        def total(values: F64) -> F64:
            return inputs.total(values, tuple(wide)) * count

        sums, every = [np.zeros((1,) * len(full))] * 4, np.ones((1,) * len(full), bool)
        others = _flags(~every, ~every, ~every)
        for places in inputs.spans(full, axes):
            parts = [PossibleValues(*(part(each, axes, places) for each in arg.arrays)) for arg in args]
            terms = parts[0] if node.kind == "sum" else _multiplied(self, node, parts)
            low, high = (np.where(terms.numbers, end, 0.0) for end in (terms.low, terms.high))
            each = (low, high, np.maximum(high, 0.0), np.maximum(-low, 0.0))
            sums = [so_far + total(values) for so_far, values in zip(sums, each, strict=True)]
            every = every & ~_any_along(~terms.numbers, axes)
            others = others | np.asarray(np.bitwise_or.reduce(terms.others, axes, keepdims=True), np.uint8)
        low, high, up, down = sums
        off, limit = (up + down) * (self.here.sum_errors(node, True)[1] + _OWN), self.here.dtype(node).limit
        plus, minus = ((others & flag) != 0 for flag in (PLUS, MINUS))
        plus, minus = plus | ~(up + off < limit), minus | ~(down + off < limit)
        flags = _flags(plus, minus, ((others & NAN) != 0) | (plus & minus))
        low, least = low - off, self.forms[node].least
        return self._limited(node, _between(low if least is None else np.fmax(low, least), high + off, every, flags))

    def _taken(self, node: Node, arg: Node) -> PossibleValues:
        """Return the possible values of an argument in the dtype of an operation."""
        found, dtype = self[arg], self.here.dtype(node)
        if node.is_exact or self._is_fused(arg):
            return found
        if holds(self.forms[arg], dtype):  # a rounding to another dtype may have made it too large
            return self._limited(node, found)
        exact = (found.low == found.high) & (round_to(found.low, dtype) == found.low)
        moved = _off(found.low, found.high, 2 * dtype.u, dtype.eta)
        low, high = (np.where(exact, found.low, end) for end in moved)
        return self._limited(node, _between(low, high, found.numbers, found.others))

    def _is_fused(self, node: Node) -> bool:
        """Whether a sum may take a product unrounded."""
        return node.kind == "multiply" and self.here.contract.fused

    def _limited(self, node: Node, made: PossibleValues) -> PossibleValues:
        """Return the possible results after overflow in an operation's dtype; values that are only moved stay."""
        own, low, high = self.here.dtype(node), made.low, made.high
        point = self.pointed(node) if node.kind == "point" else None
        if node.is_exact and point is None:
            return made
        dtype = own if point is None else point.dtype
        limit = min(dtype.limit, own.limit)
        others = made.others | np.where(made.numbers, _flags(high >= limit, low <= -limit, low != low), 0)
        if not dtype.infinities:
            others = np.where(others & _EITHER, others | NAN, others)
        if self._is_fused(node):
            return _between(low, high, made.numbers, others.astype(np.uint8), made.least)
        some = made.numbers & (low < dtype.limit) & (high > -dtype.limit)
        low, high = np.maximum(low, -dtype.max), np.minimum(high, dtype.max)
        return _between(low, high, some, others.astype(np.uint8), made.least)


def _anything(form: Form) -> PossibleValues:
    most = np.full((1,) * form.centre.ndim, np.inf)
    return _between(-most, most, True, _ALL)


def _any_along(mask: Mask, axes: Sequence[int]) -> Mask:
    return np.asarray(np.logical_or.reduce(mask, tuple(axes), keepdims=True))


def _off(low: F64, high: F64, relative: float, least: float) -> tuple[F64, F64]:
    """Return the ends, moved outwards by a share of their magnitudes plus a fixed amount."""
    share = relative + _OWN
    return low - (np.abs(low) * share + least), high + (np.abs(high) * share + least)


def _ends(*each: F64) -> tuple[F64, F64]:
    return np.minimum.reduce(np.broadcast_arrays(*each)), np.maximum.reduce(np.broadcast_arrays(*each))


def _added(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    a, b = args
    b = b if node.kind == "add" else _negated(of, node, [b])
    plus, minus = a.has(PLUS) | b.has(PLUS), a.has(MINUS) | b.has(MINUS)
    least, started = 0.0 * a.low, False
    for arg, other in zip(node.args, (b, a), strict=True):
        if of.here.starts(arg):  # the sum may start with the other, which is then rounded as often
            size = np.where(other.numbers, np.maximum(np.abs(other.low), np.abs(other.high)), 0.0)
            least, started = 2 * size * (of.here.sum_errors(arg, True)[1] + 2 * of.here.dtype(arg).u), True
    dtype, marked = of.here.dtype(node), of.forms[node].may
    low, high = _off(a.low + b.low, a.high + b.high, 2 * dtype.u, 0.0)
    nan = a.has(NAN) | b.has(NAN) | (a.has(PLUS) & b.has(MINUS)) | (a.has(MINUS) & b.has(PLUS))
    others = _flags(plus & (b.numbers | b.has(PLUS) | a.has(PLUS)), minus, nan)
    others = others | np.where(marked, _ALL, 0).astype(np.uint8) if started and marked is not None else others
    return _between(low - np.nan_to_num(least), high + np.nan_to_num(least), a.numbers & b.numbers, others)


def _multiplied(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    a, b = args
    (a_below, a_zero, a_above), (b_below, b_zero, b_above) = a.signs, b.signs
    wild = a.has(_EITHER) | b.has(_EITHER)  # an infinite factor meets each possible sign of the other
    nan = a.has(NAN) | b.has(NAN) | (a.has(_EITHER) & b_zero) | (b.has(_EITHER) & a_zero)
    plus, minus = (a_above & b_above) | (a_below & b_below), (a_above & b_below) | (a_below & b_above)
    some, dtype = a.numbers & b.numbers, of.here.dtype(node)
    (low, high), (first, last) = ((np.where(each.numbers, end, 0.0) for end in (each.low, each.high)) for each in args)
    low, high = _ends(low * first, low * last, high * first, high * last)
    is_square, exact = node.args[0] is node.args[1], a.is_one & b.is_one
    if is_square:
        low = np.where(some, a.nearest**2, 0.0)
        minus = minus & False
    ends = _off(low, high, 2 * dtype.u, dtype.eta)
    low, high = (np.where(exact, of_ones, end) for of_ones, end in zip((low, high), ends, strict=True))
    low = np.maximum(low, 0.0) if is_square else low
    return _between(low, high, some, _flags(wild & plus, wild & minus, nan))


def _divided(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    """Return possible quotients, infinite or NaN where the divisor may be 0; a 0 of known sign leaves one infinity."""
    a, b = args
    (a_below, a_zero, a_above), (b_below, b_zero, b_above) = a.signs, b.signs
    dtype, contract = of.here.dtype(node), of.here.contract
    positive = (of.signs[node.args[1]] > 0) & (b.low >= 0)
    low, high = (np.where(b.numbers, end, 1.0) for end in (b.low, b.high))
    numerators = [np.where(a.numbers, end, 0.0) for end in (a.low, a.high)]
    crosses = b_zero & ~(positive & (high > 0))
    divisor = np.where(positive & (low == 0), np.where(high > 0, np.finfo(np.float64).tiny, 1.0), low)
    quotients = [above / below for above in numerators for below in (np.where(crosses, 1.0, divisor), high)]
    least, most = _ends(*(np.where(crosses, 0.0, each) for each in quotients))
    relative = 2 * dtype.u * contract.ulp("divide") + (8 * dtype.u if node.args[1].kind == "extent" else 0.0)
    least, most = _off(least, most, relative, dtype.eta * contract.ulp("divide"))
    wide = crosses & (b.low < b.high)
    some = a.numbers & b.numbers & (~crosses | wide)
    least, most = np.where(wide, -np.inf, least), np.where(wide, np.inf, most)
    up = (a_above & ((b_zero & ~positive) | b_above | b_zero)) | (a_below & (b_below | (b_zero & ~positive)))
    down = (a_below & (b_above | b_zero)) | (a_above & (b_below | (b_zero & ~positive)))
    wild = a.has(_EITHER) | b_zero
    nan = a.has(NAN) | b.has(NAN) | (a.has(_EITHER) & b.has(_EITHER)) | (a_zero & b_zero)
    found = _between(least, most, some, _flags(wild & up, wild & down, nan))
    return found.either(_between(0.0 * least, 0.0 * most, True, 0), a.numbers & b.has(_EITHER))


def _applied(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    """Return the possible values of a function, including those at infinities."""
    (arg,), function, contract, dtype = args, node.function, of.here.contract, of.here.dtype(node)
    bound, settles = contract.bound(function.name), contract.settles(function, dtype.u)
    if bound.growth or function.strays is not None:
        return _anything(of.forms[node])
    low, high = (np.where(arg.numbers, np.clip(end, -_MOST, _MOST), 1.0) for end in (arg.low, arg.high))
    value = function.float64.value
    inside = (low > function.domain) & (high < function.top)
    if function.apart is not None:
        inside = inside & ~function.meets(low, high)
    inner = 1.0 if function.top > 1.0 else 0.0
    low, high = np.where(inside, low, inner), np.where(inside, high, inner)
    least, most = _ends(value(low), value(high))
    if function.farthest is not None:
        away = function.hull(low, high, least)
        least, most = least - away, least + away
    if not function.is_exact:
        own, off = contract.ulp(function.name), 2 * dtype.u * contract.besides(function.name).ulp
        relative = contract.relative(function.name, dtype.u) + 2 * dtype.u + function.float64.bound.relative
        least, most = _off(least, most, relative, off + dtype.eta * (1 + own))
        for side, settled in ((1.0, low >= settles), (-1.0, high <= -settles)):
            limit = function.at(side * np.inf)
            least, most = (np.where(settled, np.nan if limit is None else limit, end) for end in (least, most))
    least = np.maximum(least, 0.0) if function.is_never_negative else least
    found = _between(least, most, arg.numbers, np.where(arg.has(NAN), NAN, 0).astype(np.uint8))
    for flag, argument in ((PLUS, np.inf), (MINUS, -np.inf)):
        there = function.at(argument)
        if there is None or not np.isfinite(there):
            others = _ALL if there is None else NAN if np.isnan(there) else PLUS if there > 0 else MINUS
            end = np.full((1,) * least.ndim, np.inf)
            found = found.either(_between(-end, end, there is None, others), arg.has(flag))
        else:
            end = np.full((1,) * least.ndim, there)
            exact = function.is_exact or settles < np.inf
            lowest, highest = (end, end) if exact else _off(end, end, relative, 0.0)
            found = found.either(_between(lowest, highest, True, 0), arg.has(flag))
    unknown = arg.numbers & (~inside | bound.leaves(arg.low, arg.high))
    unknown = unknown | (arg.has(PLUS) & (bound.high < np.inf)) | (arg.has(MINUS) & (bound.low > -np.inf))
    for argument, known in function.limits:
        if known is None:  # kernels differ
            unknown = unknown | (arg.has(NAN) if np.isnan(argument) else arg.signs[1] & (argument == 0))
    return found.either(_anything(of.forms[node]), unknown)


def _chosen(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    """Return the possible values of a choice: of both sides where kernels may disagree about the condition. A limit
    replaces the values beyond it."""
    (condition, *_), (_, a, b) = node.args, args
    mask = of.forms[condition]
    unsure = (mask.spread > 0) | (False if mask.may is None else mask.may)
    yes, no = ~unsure & (mask.centre != 0), ~unsure & (mask.centre == 0)
    if condition.kind in ("less", "at_most"):  # it may be known even beside an overflow
        always, never = _compared(condition.kind == "less", *(of[arg] for arg in condition.args))
        yes, no = yes | always, no | never
    found = a.chosen(yes, b.chosen(no, a.either(b)))
    if is_limit(node):
        lower = _known(node.args[1]) == _known(condition.args[0])  # the first is taken where it is less
        if (a.low == a.high).all() and not a.others.any():
            limit = np.minimum if lower else np.maximum
            beyond, past = (PLUS, MINUS) if lower else (MINUS, PLUS)
            cut = _between(
                limit(b.low, a.low), limit(b.high, a.low), b.numbers, (b.others & (past | NAN)).astype(np.uint8)
            )
            return cut.either(a, b.has(beyond))
    return found


def _compared(is_strict: bool, a: PossibleValues, b: PossibleValues) -> tuple[Mask, Mask]:
    """Return masks of where `a` is always less than `b`, or at most equal, and where it never is, as with NaN."""
    (a_low, a_high), (b_low, b_high) = (
        (np.where(each.has(MINUS), -np.inf, each.low), np.where(each.has(PLUS), np.inf, each.high)) for each in (a, b)
    )
    always, never = (a_high < b_low, a_low >= b_high) if is_strict else (a_high <= b_low, a_low > b_high)
    return always & ~a.has(NAN) & ~b.has(NAN), never


def is_limit(node: Node) -> bool:
    """Whether a node is the lesser or the greater of two, chosen by comparing them."""
    if node.kind != "where" or node.args[0].kind not in ("less", "at_most"):
        return False
    return {*map(_known, node.args[1:])} == {*map(_known, node.args[0].args)}


def _known(node: Node) -> Node | tuple[float, float]:
    """Return the number if a node is a constant, as equal constants may be several nodes; else the node."""
    return (node.value, node.low) if node.kind == "constant" else node


def _pointed(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    (arg,), point = args, of.pointed(node)
    if point is None:
        return arg
    return _between(*_off(arg.low, arg.high, 2 * point.dtype.u, point.dtype.eta), arg.numbers, arg.others)


def _negated(of: Outcomes, node: Node, args: Sequence[PossibleValues]) -> PossibleValues:
    (arg,) = args
    return PossibleValues(-arg.high, -arg.low, _flags(arg.has(MINUS), arg.has(PLUS), arg.has(NAN)))


_MAKERS: Mapping[str, Callable[[Outcomes, Node, Sequence[PossibleValues]], PossibleValues]] = {
    "add": _added, "subtract": _added, "multiply": _multiplied, "divide": _divided, "function": _applied,
    "where": _chosen, "point": _pointed, "negate": _negated,
}  # fmt: skip


def cast(found: PossibleValues, dtype: Format, *, saturate: bool) -> PossibleValues:
    """Return the possible values after they are cast to an output's dtype."""
    low, high, others = found.low, found.high, found.others
    if saturate:
        for flag, most in ((PLUS, dtype.max), (MINUS, -dtype.max)):
            end = np.full((1,) * low.ndim, most)
            found = found.either(_between(end, end, True, 0), found.has(flag))
        low, high, others = found.low, found.high, (found.others & NAN).astype(np.uint8)
    elif not dtype.infinities:
        others = np.where(others & _EITHER, others | NAN, others).astype(np.uint8)
    return PossibleValues(low, high, others)
