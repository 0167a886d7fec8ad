"""Forms of what is built up term by term: linear recurrences, h(t) = a(t) h(t - 1) + b(t); sums of exponentials that
are scaled again whenever a running maximum grows ("online" softmax and attention); and means and variances.

Of a recurrence a kernel may take one place after the other, or blocks one after the other, or a tree, which multiplies
the factors a of a block before it knows h. In each case a term b(r) enters h(t) times the product of the a between,
after t - r products and one addition at each place between; a tree has one more addition at each of its levels. So with
the magnitudes M(t) = |a(t)| M(t - 1) + |b(t)|, in which nothing cancels, the error E is

    E(t) = |a(t)| E(t - 1) + (error of a) |h(t - 1)| + (error of b) + 2 u M(t),  and at last log2(t) u M(t) more.

This is the worst case, since rounding errors that repeat are not random. All errors are each element's own.

Where a and the share s of the term x in b = s x add up to one, as in (1 - s) h + s x, a step may also be h + s (x - h):
both are the sum of h, -s h and s x, for contracts in which terms are added in any order. The difference, its product
with s, and a constant s may be rounded, so b is off by 3 u (|s h(t - 1)| + |b(t)|) more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as fields_replaced
from typing import Any

import numpy as np

from oracles.budget import CONFIDENCE
from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.formula.affine.errors import Rounding, either, marked, more, rounded, taken
from oracles.formula.affine.forms import DUST, Form, Mask, Symbol, dust, replace, shared, upwards
from oracles.formula.affine.operations import added, function
from oracles.formula.affine.reductions import are_alike, dotted, greatest, total
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along, sums_of_products
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.contraction import Axes
from oracles.formula.exact.rigorous import along_axis, places_of
from oracles.formula.expansion import ONE
from oracles.formula.trace import FormulaError, Node, exp, exponential_of
from oracles.lazy import lazy
from oracles.summation import Sequential, rescalings

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
        for factor, before, step, now in zip(self._wide, found[:-1], more, found[1:], strict=True):
            product = upwards(np.multiply(factor, before, now), self.dtype, factor, before)
            np.add(np.multiply(product, self._carried, now), step, now)
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
        for factor, last, step, now in zip(grown, found[:-1], more, found[1:], strict=True):
            np.add(np.multiply(factor, last, now), step, now)
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


def online(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of the sum of e^(a - maximum), which is multiplied by e^(old - new) whenever the maximum grows,
    at most once for each added term.

    The difference of a term and its first maximum, and those of successive maxima, add up to the difference of the term
    and the last maximum. So do their errors, and the parts of exponentials' errors that grow with arguments. A contract
    does not say whether a kernel calculates differences and exponentials in the dtype of the sum or in that of
    everything else: here it is the coarser one. Where the maximum is infinite, a kernel may have anything.
    """
    (value,) = args
    dtype, n, other = here.dtype(node), here.inputs.number(node), here.format(here.contract.compute)
    coarser = max(dtype, other, key=lambda each: each.u)
    inner = (
        here
        if coarser is other
        else fields_replaced(here, contract=fields_replaced(here.contract, compute=coarser.name))
    )
    shifted = Node("subtract", (node.args[0], Node("max", node.args, node.dims, node.label)), node.args[0].dims)
    most = greatest(here, node, args)
    apart = added(inner, shifted, [value, shared(most)], False)
    inner.tops[shifted] = here.slack(node.args[0], value)
    keeping, bound = here.contract.keeping("exp"), here.contract.bound("exp")
    terms = taken(function(inner, exp(shifted), [taken(apart, keeping)], False), here.contract)
    ulp = bound.ulp
    each = math.log1p(2 * coarser.u * ulp) + math.log1p(dtype.u)
    found = total(here, node, [terms])
    chain = here.order(node).chain(n)
    errors = found.size * math.expm1(min(chain * each, 700.0))
    # Underflow of a factor or of its product takes at most this off each of at most n terms of a sum.
    eta, tiny = max(dtype.eta, other.eta), max(dtype.tiny, other.tiny)
    unit = eta * (1 + ulp) if keeping.denormals == "preserve" else (3 + ulp) * tiny
    least = found.least
    if least is not None:  # each factor and each product may take off as much as it may add
        kept = chain * (math.log1p(-min(2 * coarser.u * ulp, 0.5)) + math.log1p(-dtype.u))
        kept -= 2 * coarser.u * bound.growth * -math.log(eta)  # terms further below the maximum vanish
        kept = math.exp(kept) * (1 - DUST) if 2 * coarser.u * ulp < 0.5 else 0.0
        least = np.maximum(least * kept - n * unit, 0.0)
    errors = np.where(np.isfinite(found.centre), errors * (1 + DUST) + n * unit, 0.0)
    # A kernel that starts with a term uses 1 for it, without a difference of two infinities.
    endless = np.isinf(most.centre) & (here.inputs.count(here.inputs.axes(node)) > 0)
    may = marked(found.may, endless if endless.any() else None)
    return replace(more(found, errors), least=least, may=may)


def online_dot(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of the sum of p v, with p = e^(s - m) and the maximum m of s, as a running maximum makes it.

    A kernel starts a term as p0 v, where p0 = e^(s - m0) and m0 is the maximum of the term's block. As the maximum
    grows from m0 to m, it multiplies the sum by f = e^(m' - m'') at most r times. The term becomes

        p0 f1 ... fr v = p v (1 + d) e^t (1 + c)^r,  |1 + d| <= (1 + 2 u ulp)^(r + 1),  |c| <= w,

    with the unit roundoff u of the shares and w of the sum: d is the error of exponentials, and c that of products with
    factors. The maximum never falls, so the magnitudes of the differences s - m0, m0 - m', ... add up to that of s - m
    = log p, and their roundings to |t| <= u |log p|. The parts of exponentials' errors that grow with the differences
    add up to no more than the same part of the share's own error. `_scaled` adds d and t to the share as errors. An
    addition errs by w times the partial sum, and this error is scaled with the sum: relative to the sum of |p v|, it is
    as large as without scaling.

    Besides, factors and products may underflow. Fewer than n products lose less than eta each. A factor that is off by
    ulp eta multiplies at most the sum of |v|, since no share is larger than 1; of two such factors, the second makes
    the error of the first smaller. For the same reason partial sums may overflow where the sum of |v| does, however
    small the final shares are. This holds beside an infinite v too, as a factor that underflows makes NaN of an
    infinite sum.

    Where a score is +inf, a kernel may have anything: if it starts with that term, or meets it as a larger score, it
    uses 1 as the share, without a difference of two infinities. If all scores are -inf, the shares are zeros, and so
    are all sums of them.
    """
    (share, value, scores), dtype, axes = args, here.dtype(node), here.inputs.axes(node)
    times, other = rescalings(here.order(node), here.inputs.number(node)), here.dtype(exponential_of(node.args[0]))
    share = _scaled(here, node, share, scores, times)
    sums = sums_of_products(here, node, (share, value))
    found = dotted(here, node, (share, value), sums)
    most = greatest(here, node, [scores]).centre
    endless = np.isposinf(most)
    found = replace(found, may=marked(found.may, endless if endless.any() else None))
    if not times:
        return found
    keeping, bound = here.contract.keeping("exp"), here.contract.bound("exp")
    ulp, count = bound.ulp, times if dtype.holds(other) else 2 * times  # the factor is rounded too
    errors = (sums.size + found.spread) * math.expm1(min(count * math.log1p(dtype.u), 700.0)) * (1 + DUST)
    sizes = np.where(np.isinf(value.centre), 0.0, value.size)
    for axis in axes:
        sizes = sizes * here.inputs.count((axis,)) if sizes.shape[axis] == 1 else here.inputs.total(sizes, (axis,))
    eta, tiny = max(dtype.eta, other.eta), max(dtype.tiny, other.tiny)
    unit = eta * (1 + ulp) if keeping.denormals == "preserve" else (3 + ulp) * tiny
    number = np.isfinite(found.centre)
    errors = np.where(number & ~np.isneginf(most), errors + (here.inputs.count(axes) + sizes) * unit, 0.0)
    over = here.slack(node.args[2], scores).max(axes, keepdims=True, initial=0.0)  # of each running maximum
    top = sizes * (1 + here.sum_errors(node, True)[1]) * (1 + 4 * other.u * (ulp + bound.growth)) * np.exp(over)
    beyond = ~np.isnan(found.centre) & ~(top < dtype.limit)
    least = None if found.least is None else np.minimum(found.least, np.maximum(found.least - errors, 0.0))
    return replace(more(found, errors), least=least, may=marked(found.may, beyond if beyond.any() else None))


def _scaled(here: SettledProblem, node: Node, share: Form, scores: Form, times: int) -> Form:
    """Return the shares with the errors of the factors, which all sums of a kernel share if they are scaled equally
    often. If other sums use exponentials of their own, only errors of scores and their maximum are shared."""
    exponential, axes = exponential_of(node.args[0]), here.inputs.axes(node)
    u, parts = here.dtype(exponential).u, share.parts
    with np.errstate(divide="ignore"):
        apart = np.where(share.centre > 0, np.abs(np.log(share.centre)), 0.0)
    relative = np.expm1(np.minimum(u * apart + times * math.log1p(2 * u * here.contract.ulp("exp")), 700.0))
    wide = [here.inputs.extents[dim] if dim in node.over else 1 for dim in here.inputs.trace.dims]
    symbol = Symbol(np.broadcast_to(relative * (1 + DUST), np.broadcast_shapes(relative.shape, tuple(wide))))
    uses = here.inputs.trace.uses
    found = [use for each in uses[exponential] for use in (uses[each] if each.kind == "point" else [each])]
    if all(use.kind == "online_dot" for use in found) and len({*map(here.order, found)}) == 1:
        symbol = here.factors.setdefault(exponential, symbol)
    else:
        own = [each for each in parts if each not in scores.parts and any(each.radius.shape[at] != 1 for at in axes)]
        parts = {Symbol(each.radius) if each in own else each: coefficient for each, coefficient in parts.items()}
    parts = {**parts, symbol: np.where(np.isfinite(share.centre), share.centre, 0.0)}
    return more(replace(share, parts=parts), share.spread * symbol.radius)


def updated(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of the mean, or of the sum of squared deviations from it, updated term by term or part by part.

    Welford's update by a term is Chan's update by a part of one term. An update joins a part b of n_b terms to a part
    a, which is no smaller, with d = mean_b - mean_a and w = n_b / n: the mean is mean_a + w d, and the squares are
    those of a and b plus c d^2, with c = n_a w. The c d^2 of all updates add up to the squares S, and the c to at most
    C: n if terms are added one by one, n log2(n) / 2 in any case.

    A mean is a weighted mean of its parts' means, and its error one of their errors, plus the roundings of each update:
    u of the mean, and 4 u of w d (the difference, two in w, the product). Over all updates, of which the longest chain
    is h, by Cauchy and Schwarz, with s = sqrt(S / n) and |mean_p - mean| <= sqrt(S / n_p) for a part of n_p terms, the
    errors are to first order

        of the mean          u ((h + 1) (|mean| + s) + 8 s sqrt(C / n))
        of any part's mean   E = (t' + u) |mean| + u (2 sqrt(h + 1) + 8 sqrt(C / n)) sqrt(S), see below

    A mean that a part p rounds by e changes the squares by 2 n_p (mean_p - mean) e, however the part is joined later:
    they are those of p, those of all others, and those between. Parts of one level of additions are disjoint, so their
    n_p (mean_p - mean)^2 add up to at most S, and their n_p |mean_p - mean| to sqrt(n S). So the errors

        of the squares       4 t S + u (10 sqrt(h + 1) + 10) S + (2 t' + 2 u + 4 u sqrt(C / n)) |mean| sqrt(n S)

    come from the two additions of each update and from what means differ (t S each), from w d (8 sqrt(h) u S), from
    the 6 roundings of each c d^2, from Welford's product of d and the new difference, and from means as large as their
    own, by t' and locally. t is h u, or the statistical error of a sum, and so is t' where terms do not drift. Where
    they do, it is h u: once w d is less than half an ulp of a large mean, the mean stays where it is, and all of its
    errors have one sign. At last 4 C E^2 is for what is not of first order. Each update lets the errors themselves grow
    by at most 5 u. With kappa = sqrt(1 + mean^2 n / S) this is the n u kappa of Chan, Golub and LeVeque (1983).
    """
    (terms,) = args
    axes, n, dtype = here.inputs.axes(node), here.inputs.number(node), here.dtype(node)
    if math.prod(terms.centre.shape[axis] for axis in axes) != n:
        raise FormulaError(f"{node.kind} along {node.label!r}: there is one term alone for all places")
    if n == 0:
        shape = [1 if axis in axes else extent for axis, extent in enumerate(terms.centre.shape)]
        nothing = math.nan if node.kind == "welford_mean" else 0.0
        return Form(np.full(shape, nothing), dtype, dtype.precision)

    def over(values: F64) -> F64:
        found: F64 = values.sum(axes, keepdims=True)
        return found

    order, u = here.order(node), dtype.u
    chain, joined = order.chain(n) + 1, 1.0 if isinstance(order, Sequential) else max(1.0, math.log2(n) / 2)
    growth = math.exp(min(u * (5 * chain + 20), 700.0))
    mean, given = over(terms.centre) / n, over(terms.spread) / n
    away, moved = np.abs(terms.centre - mean), terms.spread + given
    squares, lost = over(away**2), over((2 * away + moved) * moved)
    root = np.sqrt(squares + lost)
    unit = dtype.tiny if here.contract.denormals != "preserve" else dtype.eta
    largest, apart = terms.size.max(axes, keepdims=True), (away + moved).max(axes, keepdims=True) * 2
    least = None
    if node.kind == "welford_mean":
        each = root / math.sqrt(n)
        errors = growth * u * (chain * (np.abs(mean) + given + each) + 8 * math.sqrt(joined) * each)
        centre, errors, top = mean, errors + given + 3 * chain * unit, largest + apart
    else:
        theta, worst, _ = here.sum_errors(node, here.structures is True)
        random = ~are_alike(away, axes, dtype, here.inputs) & np.logical_not(here.structures)
        own = 4 * np.where(random, theta, worst) + (10 * math.sqrt(chain) + 10) * u
        still = np.logical_not(here.structures) & (_drift(terms.centre - mean, axes) <= CONFIDENCE * root)
        once = np.where(still, theta, worst) + u
        each = growth * (once * (np.abs(mean) + given) + u * (2 * math.sqrt(chain) + 8 * math.sqrt(joined)) * root)
        each = each + 3 * chain * unit
        far = (2 * once + 4 * u * math.sqrt(joined)) * (np.abs(mean) + given) + 12 * chain * unit * math.sqrt(joined)
        errors = growth * (own * root + far * math.sqrt(n)) * root
        errors = errors + (4 * each**2 + 4 * unit) * joined * n + lost
        centre, top, least = squares, np.maximum(largest, apart) ** 2 * n, np.zeros((1,) * mean.ndim)
    finite = np.isfinite(centre)
    errors = np.where(finite, errors * (1 + 2.0**-40) + np.abs(centre) * DUST, 0.0)
    # After an infinity, differences are NaN. A kernel that starts with a single term may calculate no squares.
    single = n == 1 and node.kind == "welford_squares"
    may = any_along(marked(either(args), ~np.isfinite(terms.centre) if single else np.isinf(terms.centre)), axes)
    found = Form(centre, dtype, dtype.precision, rest=errors, may=may, least=least)
    uncertain = np.zeros(centre.shape, bool)
    return rounded(found, Rounding(underflow=0.0, top=top, certain=uncertain), here.contract)


def _drift(away: F64, axes: Axes) -> F64:
    """Return the largest magnitude of a sum of successive deviations from the mean; for random ones it is a few times
    the root of their squares."""
    sums = np.moveaxis(away, axes, range(-len(axes), 0))
    sums = np.cumsum(sums.reshape(*sums.shape[: -len(axes)], -1), -1)
    found: F64 = sums.max(-1, initial=0.0) - sums.min(-1, initial=0.0)
    return np.asarray(np.expand_dims(found, axes))
