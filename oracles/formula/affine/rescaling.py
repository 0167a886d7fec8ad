"""Forms of sums of exponentials that are scaled again whenever a running maximum grows ("online" softmax and
attention), and of means and variances that are updated term by term."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace as fields_replaced

import numpy as np

from oracles.budget import CONFIDENCE
from oracles.doubledouble import F64
from oracles.formula.affine.errors import Rounding, either, marked, more, rounded, taken
from oracles.formula.affine.forms import DUST, Form, Symbol, replace, shared
from oracles.formula.affine.operations import added, function
from oracles.formula.affine.reductions import are_alike, dotted, greatest, total
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along, sums_of_products
from oracles.formula.exact.contraction import Axes
from oracles.formula.trace import FormulaError, Node, exp, exponential_of
from oracles.summation import Sequential, rescalings


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
