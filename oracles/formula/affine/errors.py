"""The rounding of forms, with underflow and overflow, and the half-width of a form whose shared errors are joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format
from oracles.formula.affine.forms import DUST, Edge, Form, Mask, Symbol, dust, replace, upwards
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.exact.contraction import Axes

_LEAST = -np.finfo(np.float64).max
_CENTRE = 2.0**-12
"""The largest error of a float64 centre as a share of the errors of kernels in fewer bits: these round with 2^-24, even
in sums of 2^20 elements (see `SettledProblem.own_share`)."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """The rounding of one operation's results to their dtype."""

    relative: float = 0.0
    """The error relative to the result; 0 if the operation is exact."""
    underflow: float = 0.5
    """The error in units of the smallest subnormal number; 0 for sums, which are exact there."""
    fused: bool = False
    """Whether some kernels skip the rounding, and so do not overflow."""
    top: F64 | None = None
    """The largest magnitude of intermediate values, without infinite terms; None: that of the results."""
    certain: Mask | None = None
    """Mask of elements that are infinite in every kernel if their results are too large; None: all elements."""


def rounded(form: Form, rounding: Rounding, contract: Contract) -> Form:
    """Return the form after a rounding."""
    relative = rounding.relative + dust(form.dtype)
    errors = upwards(form.size * relative, form.dtype, form.size) if rounding.relative else None
    flush = contract.flushes_results
    if rounding.underflow or flush:
        spread = form.spread if errors is None else form.spread + errors
        near = np.abs(form.centre) - spread
        if near.size and not near.min() >= form.dtype.tiny:
            size = np.abs(form.centre) + spread
            # Half of float64's smallest number is no float64 number: it is rounded up.
            unit = rounding.underflow * form.dtype.eta or form.dtype.eta
            low, lost = (near < form.dtype.tiny) & (size > 0), np.zeros((1,) * form.centre.ndim)
            if low.any():  # where values are flushed, the function's own units add to the error
                lost = np.where(low, unit, 0.0)
                lost = np.maximum(_flushed(form, errors, low), lost) if flush else lost
            errors = lost if errors is None else errors + lost
    if form.least is not None and form.least.any():
        lost = np.abs(form.least) * rounding.relative * (1 + 2.0**-20) + form.dtype.tiny
        least = np.maximum(form.least - lost, np.minimum(form.least - lost * (form.least < 0), 0.0))
        form = replace(form, least=least)
    return _limited(form if errors is None else more(form, errors), rounding)


def more(form: Form, errors: F64) -> Form:
    """Return the form with further errors, which are each element's own."""
    found = replace(form, rest=errors if form.rest is None else form.rest + errors)
    found.__dict__["spread"] = form.spread + errors  # the value that would be computed
    return found


def taken(form: Form, contract: Contract) -> Form:
    """Return the form as an operation takes it: subnormal values may be zero if the contract flushes operands."""
    return zeroed(form, contract.flushes_operands)


def again(product: Form, operands: Sequence[Form], dtype: Format) -> Form:
    """Return a product as it is in an addition that computes it again without rounding. Operands that are subnormal, or
    become so when they are cast to `dtype`, may be flushed there although they were not in the first product."""
    low: Mask | bool = False
    for each in operands:
        low = low | (np.abs(each.centre) - each.spread < max(each.dtype.tiny, dtype.tiny)) & (each.size > 0)
    return more(product, np.where(low, product.size, 0.0)) if np.any(low) else product


def zeroed(form: Form, flushes: bool) -> Form:
    """Return the form; if `flushes`, its subnormal values may be zero."""
    if not flushes:
        return form
    form = unfloored(form, form.dtype, flushes)
    low = (np.abs(form.centre) - form.spread < form.dtype.tiny) & (form.size > 0)
    if form.least is not None:
        low = low & ~(form.least >= form.dtype.tiny)
    if not low.any():
        return form
    least = None if form.least is None else np.where(low, np.minimum(form.least, 0.0), form.least)
    return replace(more(form, _flushed(form, None, low)), least=least)


def unfloored(form: Form, dtype: Format, flushes: bool) -> Form:
    """Return the form; if `flushes`, without a floor of its edge that is subnormal."""
    if form.edge is None or not flushes:
        return form
    edge = form.edge
    floor = np.where(edge.floor < dtype.tiny, np.minimum(edge.floor, 0.0), edge.floor)
    return replace(form, edge=Edge(edge.zero, edge.nan, floor, edge.ceiling))


def _flushed(form: Form, errors: F64 | None, low: Mask) -> F64:
    """Return what must be added to the own errors and `errors` of the elements in `low`, which are few, so that zero is
    a possible value, whatever the shared errors are: nothing if it was flushed before. A flushed value is at most the
    smallest normal number."""

    def at(values: F64 | None) -> F64:
        return np.broadcast_to(np.float64(0.0) if values is None else values, low.shape)[low]

    size, own = np.abs(at(form.centre)), at(form.rest)
    shared = at(form.spread) - own
    own = own + at(errors)
    whole = (size + shared) * (1 + DUST)
    if form.dtype is DOUBLE:  # float64's result is as far from the exact value, which may be the larger one
        missing = np.where(own < size, whole, whole - own)
    else:
        missing = whole - own + (own + shared) * _CENTRE
    found = np.zeros(low.shape)
    found[low] = np.minimum(np.minimum(size + shared + own, form.dtype.tiny), np.maximum(missing, 0.0))
    return found


def either(forms: Sequence[Form]) -> Mask | None:
    """Return the mask of elements that may be infinite or NaN in any of the forms, or None."""
    return marked(*(each for form in forms for each in (form.may, form.overflows)))


def marked(*masks: Mask | None) -> Mask | None:
    """Return the union of the masks; None if there are none."""
    found: Mask | None = None
    for each in masks:
        if each is not None:
            found = each if found is None else found | each
    return found


def _limited(form: Form, rounding: Rounding) -> Form:
    """Return the form with an infinite centre where it certainly overflows, and with a mark where it may overflow."""
    limit = form.dtype.limit
    top = form.size if rounding.top is None else rounding.top
    if not top.size or (top.max() < limit and (rounding.top is None or np.isfinite(form.centre).all())):
        return form
    beyond = np.abs(form.centre) - form.spread >= limit
    over = beyond if rounding.certain is None else beyond & rounding.certain
    finite = np.isfinite(form.centre)
    if rounding.fused:
        over = np.zeros_like(over)
    over = ~finite | over
    unsure = ~over & ~(top < limit)
    if rounding.certain is None:
        signed = unsure & finite & (form.spread < np.abs(form.centre))
        unsure = unsure & ~signed
        form = replace(form, overflows=marked(form.overflows, signed if signed.any() else None))
    if rounding.certain is not None:  # other terms may overflow to the side opposite to an infinite one
        unsure |= np.isinf(form.centre) & ~(top < limit) & ~rounding.certain
    centre = np.where(over & beyond & ~np.isnan(form.centre), np.copysign(np.inf, form.centre), form.centre)
    parts = {s: np.maximum(np.where(over | np.isnan(c), 0.0, c), _LEAST) for s, c in form.parts.items()}
    rest = None if form.rest is None else np.where(over, 0.0, np.where(np.isnan(form.rest), np.inf, form.rest))
    return replace(form, centre=centre, parts=parts, rest=rest, may=marked(form.may, unsure if unsure.any() else None))


def half_width(form: Form, inputs: Inputs) -> F64:
    """Return how far a kernel's value may lie from the centre, with the errors of one symbol taken together.

    A value may depend on an error both directly and through sums that contain it. In e / total(e) the error of an
    element of e is in the numerator and in the denominator: with one dominant element the two cancel. A symbol that is
    a sum remembers its terms' errors; everything that depends on the same errors is joined here.
    """
    groups: dict[tuple[Symbol, Axes], list[Symbol]] = {}
    for symbol in form.parts:
        if symbol.summed is not None:
            groups.setdefault((symbol.summed.errors, symbol.summed.axes), []).append(symbol)
    found, taken = form.spread, set[Symbol]()
    for (errors, axes), sums in groups.items():
        direct = None if errors in taken else form.parts.get(errors)
        taken.add(errors)
        if len(sums) > 1 or direct is not None:
            with np.errstate(all="ignore"):
                apart = sum(np.abs(form.parts[each]) * each.radius for each in sums)
                own = np.abs(direct) * errors.radius if direct is not None else 0.0
                together = _joined(errors, axes, sums, form.parts, direct, inputs)
                # Sums of n numbers and a few more operations; each errs by at most 2^-53 of the sum of magnitudes.
                slack = (inputs.count(axes) + 16) * (2.0**-52 * (apart + own) + 2.0**-1074)
                less = apart + own - (together + slack)
                found = found - np.where(less > 0, less, 0.0) * (1 - 2.0**-40)
    return np.maximum(found, 0.0)


def _joined(
    errors: Symbol,
    axes: Axes,
    sums: Sequence[Symbol],
    parts: Mapping[Symbol, F64],
    direct: F64 | None,
    inputs: Inputs,
) -> F64:
    """Return an upper bound of |direct e_m + sum_i a_i sum_k w_ik e_k| for an element m."""
    # Squared radii times squared coefficients may underflow in float64. So each sum's own part of them is calculated,
    # a_i w_ik r_k, or one error's share of that part.
    radius = errors.radius
    coefficients, summed = [parts[each] for each in sums], [each.summed for each in sums if each.summed is not None]
    own: F64 | float = 0.0 if direct is None else np.abs(direct) * radius
    if len(sums) > 1 and all(each.shape[axis] == 1 for each in coefficients for axis in axes):
        found = own
        shape = tuple(map(max, *(each.shape for each in coefficients), *(each.shape for each in summed)))
        for places in inputs.spans(shape, axes):
            weight = sum(a * each.weighted(places) for a, each in zip(coefficients, summed, strict=True))
            found = inputs.total(np.abs(weight), axes) + found
        return np.asarray(found)
    weights = [each.weighted((slice(None),) * len(axes)) for each in summed]
    if direct is not None and len(sums) == 1:  # e_m counts directly and in the sum, other errors in the sum only
        others = np.maximum(sums[0].radius - np.abs(weights[0]), 0.0)
        return np.abs(coefficients[0]) * others + np.abs(coefficients[0] * weights[0] + direct * radius)
    # Cauchy and Schwarz, of sqrt(r_k) and sqrt(r_k) sum_i a_i w_ik; both over the sum of |a_i| sum_k |w_ik| r_k
    shares = np.sqrt(radius / inputs.total(radius, axes))
    each_share = [_over(_over(w, each.radius), shares) for w, each in zip(weights, sums, strict=True)]
    terms = [a * each.radius for a, each in zip(coefficients, sums, strict=True)]
    whole = sum(np.abs(each) for each in terms)
    square: F64 | float = 0.0
    size: F64 | float = 0.0
    for a, w in zip(terms, each_share, strict=True):
        for b, v in zip(terms, each_share, strict=True):
            term = _over(a, whole) * _over(b, whole) * inputs.total(w * v, axes)
            square, size = square + term, size + np.abs(term)
    square = np.maximum(square, 0.0) + 2.0**-52 * (inputs.count(axes) + 16) * size
    return np.asarray(whole * np.sqrt(square) + own)


def _over(values: F64, whole: F64 | float) -> F64:
    """Return the quotients of two arrays, with 0 for 0 / 0."""
    found: F64 = np.where(np.equal(values, 0), 0.0, values / whole)
    return found


def is_same(found: Form, a: Form, b: Form, *, wide: bool, most: float) -> Mask:
    """Return the mask of elements for which either of two may be chosen: they are the same number, or differ by at most
    `most` times the choice's other errors. With `wide`, the errors of float64 centres count too."""
    apart = np.abs(a.centre - b.centre)
    if wide and not (a.is_exact and b.is_exact):
        apart = apart + (np.abs(a.centre) + np.abs(b.centre)) * 2.0**-52
    same = (apart == 0) if found.rest is None else (apart <= found.rest * most)
    wild = either([a, b])
    return np.asarray(same & np.isfinite(apart) if wild is None else same & np.isfinite(apart) & ~wild)
