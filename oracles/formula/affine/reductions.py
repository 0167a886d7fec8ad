"""Forms of sums and maxima, which combine the errors of elements of a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format
from oracles.formula.affine.errors import Rounding, either, marked, more, rounded
from oracles.formula.affine.forms import (
    Form,
    Mask,
    Summed,
    Symbol,
    Weights,
    blended,
    dust,
    replace,
    upwards,
)
from oracles.formula.affine.operations import FAR
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import LESS, Sums, any_along, is_floored, sums_of, sums_of_products
from oracles.formula.exact.arithmetic import Float64, along
from oracles.formula.exact.centre import Inputs
from oracles.formula.exact.contraction import Axes, Matrices, is_contraction
from oracles.formula.trace import Node
from oracles.rounding import round_to
from oracles.summation import is_biased, is_short

_ALIKE = 0.9
"""The share of a sum's nonzero terms that must have a magnitude of their own for rounding errors to count as random. If
fewer have, only the worst case is sound. Measured: constant rows and ties violated the statistical budget."""


def dot(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of the sum of a * b."""
    return dotted(here, node, args, sums_of_products(here, node, args))


def dotted(here: SettledProblem, node: Node, args: Sequence[Form], sums: Sums) -> Form:
    a, b = args

    def weights(symbol: Symbol) -> Weights:
        both = ((a, b.centre), (b, a.centre))
        return [(each.parts[symbol], factor) for each, factor in both if symbol in each.parts]

    axes = here.inputs.axes(node)
    return _total(
        here, node, sums, weights, lambda dtype: products_are_alike(a.centre, b.centre, axes, dtype, here.inputs)
    )


def total(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of the sum of a."""
    (terms,), axes = args, here.inputs.axes(node)
    counts = [here.inputs.count((axis,)) for axis in axes]
    return _total(
        here, node, sums_of(here, node, terms, counts), lambda symbol: [(terms.parts[symbol],)],
        lambda dtype: are_alike(terms.centre, axes, dtype, here.inputs),
    )  # fmt: skip


def _total(
    here: SettledProblem, node: Node, sums: Sums, weights: Callable[[Symbol], Weights], alike: Callable[[Format], Mask]
) -> Form:
    """Return the form of a sum, given the sums over the forms of its terms. `weights` returns the coefficients of a
    symbol. `alike` is the mask of sums in which too few terms have a magnitude of their own."""
    axes, dtype = here.inputs.axes(node), here.dtype(node)
    n = here.inputs.count(axes)
    # Terms of fewer bits are multiples of a coarse unit, see `sum_budget`.
    few = sums.bits < dtype.precision or here.structures is True
    theta, worst, statistical = here.sum_errors(node, few)
    if statistical:
        theta = np.where(here.structures, worst, theta) if here.structures is not False else theta
    allowed = np.where(alike(dtype), worst, theta) if statistical else theta
    parts = {**sums.parts}
    for symbol, radius in sums.radii.items():
        own = tuple(axis for axis in axes if symbol.radius.shape[axis] != 1)
        joint = all(axis in own or np.all(here.inputs.count((axis,)) == 1) for axis in axes)  # each has its own error
        summed = Summed(symbol, weights(symbol), own) if joint else None
        parts[Symbol(radius, summed)] = np.ones((1,) * radius.ndim)
    least = None if sums.least is None else _least(here, node, *sums.least)
    found = Form(sums.centre, dtype, dtype.precision, parts, sums.rest, sums.may, least=least)
    top, less = (sums.size, None) if sums.far is None else sums.far
    short = is_short(here.order(node))
    if np.all(n > 1) or short:
        allowed = allowed + dust(dtype)
        errors = upwards(sums.size * allowed, dtype, sums.size)
        if less is not None:  # magnitudes may add up to infinity in float64 where their sum is a number
            errors = np.where(np.isinf(sums.size), less * allowed / LESS, errors)
        if here.contract.denormals != "preserve":  # every partial sum may be flushed if it is subnormal
            errors = errors + np.where(sums.keeps, 0.0, np.minimum(sums.size, n * dtype.tiny))
        if node.kind == "sum" and here.is_whole(node) and not short:  # equal terms of few bits: no addition rounds
            errors = np.where((found.spread == 0) & (sums.size <= 2.0**dtype.precision), 0.0, errors)
        found = more(found, errors)
    mixed = sums.is_mixed
    rounding = Rounding(underflow=0.0, top=top * (1 + theta), certain=np.logical_not(mixed))
    before, found = found, rounded(found, rounding, here.contract)
    if here.starts(node):
        here.sizes[node] = sums.size
        found = _begun(before, found)
    if np.isnan(found.centre).any():
        found = replace(found, may=marked(found.may, np.isnan(found.centre) & ~sums.is_nan))
    if sums.overflows is not None:  # where it is infinite with such terms rounded or not, it certainly is
        found = replace(found, may=marked(found.may, sums.overflows & ~(np.isinf(found.centre) & ~mixed)))
    return found


def _begun(before: Form, found: Form) -> Form:
    """Return the form of a sum that overflows alone, but perhaps not together with the value that it starts with."""
    over = np.isinf(found.centre) & np.isfinite(before.centre)
    return replace(blended(over, before, found), overflows=marked(found.overflows, over)) if over.any() else found


def started(here: SettledProblem, node: Node, args: Sequence[Form], found: Form) -> Form:
    """Return the form of a sum plus a value that may be its first term. In the worst case that value is rounded as
    often as the other terms: if it is far smaller, it is lost, so roundings are not random."""
    for place, arg in enumerate(node.args):
        if not here.starts(arg):
            continue
        dtype, first, n = here.dtype(arg), args[1 - place], here.inputs.count(here.inputs.axes(arg))
        converts = dtype is not here.dtype(node)
        if not (converts or here.inputs.number(arg)):
            continue
        _, worst, _ = here.sum_errors(arg, True)
        errors = upwards(first.size * (worst + 2 * dtype.u + dust(dtype)), dtype, first.size)
        if converts:  # the last addition is in the dtype of the sum
            errors = errors + found.size * (dtype.u + dust(dtype)) + dtype.eta
        top = (here.sizes[arg] + first.size) * (1 + worst) * (1 + 2 * dtype.u)
        if here.contract.denormals != "preserve":
            errors = errors + np.minimum(top, (n + 1) * dtype.tiny)
        number = np.isfinite(found.centre) & np.isfinite(first.size)
        beyond = number & ~(top < dtype.limit)
        found = more(found, np.where(number, errors, 0.0))
        found = replace(found, may=marked(found.may, beyond if beyond.any() else None))
    return found


def _least(here: SettledProblem, node: Node, known: Mask, lowest: F64) -> F64:
    """Return a lower bound for the sum of terms that are never negative: each addition of the longest chain takes off
    at most one rounding. NaN for other sums."""
    if not is_floored(here, node) or is_biased(here.order(node)):  # an addition may take off more
        return np.where(known, 0.0, np.nan)
    _, worst, _ = here.sum_errors(node, True)
    kept = (1 - 2 * here.dtype(node).u * np.log1p(worst)) / (1 + worst)  # (1 - u)^h, with worst = (1 + u)^h - 1
    kept = np.where(np.isfinite(lowest) & (worst > FAR), lowest * kept * (1 - 2.0**-40), 0.0)
    return np.where(known, kept, np.nan)


def greatest(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """Return the form of a maximum: it has the errors that all elements share, and the largest of the others."""
    (arg,) = args
    axes = here.inputs.axes(node)
    parts, rest = dict[Symbol, F64](), None if arg.rest is None else _largest(arg.rest, axes)
    for symbol, coefficient in arg.parts.items():
        if all(symbol.radius.shape[axis] == coefficient.shape[axis] == 1 for axis in axes):
            parts[symbol] = coefficient
        else:
            errors = _largest(np.abs(coefficient) * symbol.radius, axes)
            rest = errors if rest is None else rest + errors
    may, centre = any_along(either(args), axes), along(Float64().greatest, arg.centre, axes)
    least = None if arg.least is None else np.maximum.reduce(arg.least, axes, keepdims=True, initial=-np.inf)
    if here.contract.flushes_operands and (astray := _mistaken(arg, centre, axes)).any():
        rest = astray if rest is None else np.maximum(rest, astray)
    return replace(arg, centre=centre, parts=parts, rest=rest, may=may, overflows=None, least=least)


def _mistaken(arg: Form, centre: F64, axes: Axes) -> F64:
    """Return by how much a kernel may return less than the maximum, reduced axes kept, if its comparisons treat
    subnormal numbers as zero: it may then return any of the subnormal elements, unchanged."""
    tiny = arg.dtype.tiny
    low = (np.abs(arg.centre) - arg.spread < tiny) & (arg.size > 0) & (centre - arg.spread < tiny)
    return _largest(np.where(low, centre - arg.centre + arg.spread, 0.0), axes)


def _largest(values: F64, axes: Axes) -> F64:
    found: F64 = np.maximum.reduce(values, axes, keepdims=True, initial=0.0)
    return found


def are_alike(terms: F64, axes: Axes, dtype: Format, inputs: Inputs | None = None) -> Mask:
    """Return the mask of sums whose terms are too alike for random rounding errors: after rounding to `dtype`, fewer
    than `_ALIKE` of the nonzero terms differ in magnitude, as in small values that are left of a large mean."""
    sizes = round_to(np.abs(terms), dtype)
    sizes = sizes if dtype is DOUBLE else sizes.astype(np.float32)  # sorted in half the time
    others = sizes > 0
    count = others.sum(axis=axes, keepdims=True) if inputs is None else inputs.total(others, axes)
    axis, *more = axes
    if more:  # along one axis
        kept = [at for at in range(sizes.ndim) if at not in axes]
        rows, n = [sizes.shape[at] for at in kept], math.prod(sizes.shape[at] for at in axes)
        sizes, axis = sizes.transpose(*kept, *axes).reshape(*rows, n), len(kept)
    sizes = np.sort(sizes, axis=axis)
    places = (slice(None),) * axis
    own = (sizes[(*places, slice(1, None))] > sizes[(*places, slice(-1))]).sum(axis=axis, keepdims=True) + 1
    return np.asarray(own.reshape(count.shape) < _ALIKE * count)


def products_are_alike(a: F64, b: F64, axes: Axes, dtype: Format, inputs: Inputs) -> Mask:
    """Return the mask of sums of products that are too alike for random rounding errors; see `are_alike`."""
    if not is_contraction(a.shape, b.shape, axes) or inputs.is_filled(axes):
        return are_alike(a * b, axes, dtype, inputs)
    matrices = Matrices.of(a, b, axes)
    found = np.empty((*matrices.left.shape[:2], matrices.right.shape[1]), bool)
    for place, products in matrices.products():
        found[place] = are_alike(products, (2,), dtype)[..., 0]
    return matrices.arranged(found)
