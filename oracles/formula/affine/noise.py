"""Errors that a value has both by itself and through sums that it is a part of.

In e / total(e) the error of an element of e is in the numerator and in the denominator: with one dominant element the
two cancel. A symbol that is a sum remembers of which errors; at the end all that depends on the same errors is joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oracles.doubledouble import F64
from oracles.formula.affine.forms import Form, Symbol
from oracles.formula.exact.centre import Inputs
from oracles.formula.exact.contraction import Axes


def half_width(form: Form, inputs: Inputs) -> F64:
    """How far a kernel's value may lie from the centre, with the errors of one symbol taken together."""
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
                # Sums of n numbers, and few operations more, of which none errs by more than 2^-53 of all there is.
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
    """A bound of |direct e_m + sum_i a_i sum_k w_ik e_k| for an element m."""
    # Radii and coefficients may each be so small that float64 has no product of the two squares: what is formed is each
    # sum's own part of it, a_i w_ik r_k, or what share of that an error has.
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
    if direct is not None and len(sums) == 1:  # all that e_m does, and what the others do
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
    """Quotients; nothing of nothing is nothing."""
    found: F64 = np.where(np.equal(values, 0), 0.0, values / whole)
    return found
