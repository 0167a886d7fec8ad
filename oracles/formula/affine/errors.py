"""What a rounding does to a form: its errors, where it underflows, overflows, or becomes narrower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format
from oracles.formula.affine.forms import DUST, Edge, Form, Mask, dust, replace, upwards
from oracles.formula.contract import Contract

_LEAST = -np.finfo(np.float64).max
_CENTRE = 2.0**-12
"""A centre in float64 errs by less than this share of what kernels may err by that calculate in fewer bits: where they
round with 2^-24, as often as rows of 2^20 elements are added up (see `Setting.own_share`)."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """The rounding of one operation's results to their dtype."""

    relative: float = 0.0
    """0 of what is exact."""
    underflow: float = 0.5
    """The error in units of the smallest subnormal number; 0 of sums, which are exact there."""
    fused: bool = False
    """Whether some kernels leave it out: what they do not round does not overflow either."""
    reach: F64 | None = None
    """The largest magnitude on the way to the results, infinite terms aside, where that is not their own."""
    certain: Mask | None = None
    """Where every kernel goes that far; None: everywhere."""


def rounded(form: Form, rounding: Rounding, contract: Contract) -> Form:
    """The form after that rounding."""
    relative = rounding.relative + dust(form.dtype)
    errors = upwards(form.size * relative, form.dtype, form.size) if rounding.relative else None
    flush = contract.flushes_results
    if rounding.underflow or flush:
        spread = form.spread if errors is None else form.spread + errors
        near = np.abs(form.centre) - spread
        if near.size and not near.min() >= form.dtype.tiny:
            size = np.abs(form.centre) + spread
            # Half of the smallest number of float64 is not one: it is rounded up.
            unit = rounding.underflow * form.dtype.eta or form.dtype.eta
            low, lost = (near < form.dtype.tiny) & (size > 0), np.zeros((1,) * form.centre.ndim)
            if low.any():  # what is flushed may be off by the function's own units besides
                lost = np.where(low, np.maximum(_flushed(form, errors), unit) if flush else unit, 0.0)
            errors = lost if errors is None else errors + lost
    if form.least is not None and form.least.any():
        lost = np.abs(form.least) * rounding.relative * (1 + 2.0**-20) + form.dtype.tiny
        least = np.maximum(form.least - lost, np.minimum(form.least - lost * (form.least < 0), 0.0))
        form = replace(form, least=least)
    return _limited(form if errors is None else more(form, errors), rounding)


def more(form: Form, errors: F64) -> Form:
    """The form with more errors that each element has for itself."""
    found = replace(form, rest=errors if form.rest is None else form.rest + errors)
    found.__dict__["spread"] = form.spread + errors  # what it would be found to be
    return found


def taken(form: Form, contract: Contract) -> Form:
    """The form as an operation takes it, which may replace what is subnormal by zero."""
    return zeroed(form, contract.flushes_operands)


def again(product: Form, operands: Sequence[Form], dtype: Format) -> Form:
    """A product of that dtype as an addition takes it that forms it anew, unrounded: operands that are subnormal, or
    become so when they are cast to it, may be zero there, and numbers where the product was formed before."""
    low: Mask | bool = False
    for each in operands:
        low = low | (np.abs(each.centre) - each.spread < max(each.dtype.tiny, dtype.tiny)) & (each.size > 0)
    return more(product, np.where(low, product.size, 0.0)) if np.any(low) else product


def zeroed(form: Form, flushes: bool) -> Form:
    """The form, whose subnormal values may be zero where something flushes them."""
    if not flushes:
        return form
    form = unfloored(form, form.dtype, flushes)
    low = (np.abs(form.centre) - form.spread < form.dtype.tiny) & (form.size > 0)
    if form.least is not None:
        low = low & ~(form.least >= form.dtype.tiny)
    if not low.any():
        return form
    least = None if form.least is None else np.where(low, np.minimum(form.least, 0.0), form.least)
    return replace(more(form, np.where(low, _flushed(form, None), 0.0)), least=least)


def unfloored(form: Form, dtype: Format, flushes: bool) -> Form:
    """The form, whose least magnitudes are none where something flushes them."""
    if form.edge is None or not flushes:
        return form
    edge = form.edge
    floor = np.where(edge.floor < dtype.tiny, np.minimum(edge.floor, 0.0), edge.floor)
    return replace(form, edge=Edge(edge.zero, edge.nan, floor, edge.ceiling))


def _flushed(form: Form, errors: F64 | None) -> F64:
    """What must be added to the errors that each element has for itself, these among them, so that zero is within reach
    whatever the others are, of the exact value too; no value that is flushed is larger than the smallest normal number.
    What was flushed before is not so again."""
    own = np.zeros((1,) * form.centre.ndim) if form.rest is None else form.rest
    shared = form.spread - own
    own = own if errors is None else own + errors
    whole = (np.abs(form.centre) + shared) * (1 + DUST)
    missing = whole - own
    if form.dtype is DOUBLE:  # as far off is what float64 makes of the exact value, which may be the larger one
        missing = np.where(own < np.abs(form.centre), whole, missing)
    else:
        missing = missing + (own + shared) * _CENTRE
    return np.minimum(np.minimum(np.abs(form.centre) + shared + own, form.dtype.tiny), np.maximum(missing, 0.0))


def either(forms: Sequence[Form]) -> Mask | None:
    """Where any of the forms may be infinite or NaN."""
    return marked(*(each for form in forms for each in (form.may, form.overflows)))


def marked(*masks: Mask | None) -> Mask | None:
    """Where any of the masks is set."""
    found: Mask | None = None
    for each in masks:
        if each is not None:
            found = each if found is None else found | each
    return found


def _limited(form: Form, rounding: Rounding) -> Form:
    """The form with infinities where it overflows for certain, and a mark where it may."""
    limit = form.dtype.limit
    top = form.size if rounding.reach is None else rounding.reach
    if not top.size or (top.max() < limit and (rounding.reach is None or np.isfinite(form.centre).all())):
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
    if rounding.certain is not None:  # an infinite term, and others that may overflow to the other side
        unsure |= np.isinf(form.centre) & ~(top < limit) & ~rounding.certain
    centre = np.where(over & beyond & ~np.isnan(form.centre), np.copysign(np.inf, form.centre), form.centre)
    parts = {s: np.maximum(np.where(over | np.isnan(c), 0.0, c), _LEAST) for s, c in form.parts.items()}
    rest = None if form.rest is None else np.where(over, 0.0, np.where(np.isnan(form.rest), np.inf, form.rest))
    return replace(form, centre=centre, parts=parts, rest=rest, may=marked(form.may, unsure if unsure.any() else None))
