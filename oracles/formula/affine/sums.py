"""Sums of the fields of terms' forms along axes, from which the form of a sum is made.

The terms need not all exist at once: sums over parts of an axis add up to those over all of it, so products of two
values are formed for some places of the axes at a time. For ordinary numbers no products are formed at all, since sums
of centres, of magnitudes, and of errors times magnitudes are products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as fields_replaced

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE
from oracles.formula.affine.errors import either, marked, taken
from oracles.formula.affine.forms import DUST, ETA, Form, Mask, Symbol, dust, replace, upwards
from oracles.formula.affine.operations import FAR, bits_of_product, product
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.exact.contraction import LARGE, SMALL, Axes, Places, contracted, extremes, is_contraction, part
from oracles.formula.trace import Node

LESS = 2.0**-64
"""A factor for magnitudes: with it, their sum cannot overflow, since it has fewer than 1 / `LESS` terms."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of the fields of terms' forms along axes, which are kept. Arrays broadcast against each other."""

    bits: int
    """A number of significant bits that suffices for each term."""
    centre: F64
    size: F64
    """The sums of the largest magnitudes."""
    far: tuple[F64, F64] | None
    """The sums of finite magnitudes, and `LESS` times the sums of all; None: all are finite."""
    parts: Mapping[Symbol, F64]
    """For each error symbol that all terms share, the sum of its coefficients over the terms."""
    radii: Mapping[Symbol, F64]
    """For each error symbol of which every term has errors of its own, the sum of these errors."""
    rest: F64 | None
    may: Mask | None
    overflows: Mask | None
    low: F64
    """A number with the sign of the smallest term, or zero; infinite or NaN where a term is."""
    high: F64
    """A number with the sign of the largest term, or zero; infinite or NaN where a term is."""
    least: tuple[Mask, F64] | None
    """Mask of sums without negative terms, and their lower bounds if `is_floored`; None: any may have some."""
    keeps: Mask
    """Mask of sums whose terms are each zero, or positive and normal in the sum's dtype: no partial sum is flushed."""

    def __add__(self, other: Sums) -> Sums:
        size, far = self.size + other.size, None
        if self.far or other.far or not np.isfinite(size).all():
            (a, less), (b, other_less) = (each.far or (each.size, each.size * LESS) for each in (self, other))
            far = a + b, less + other_less
        least = None
        if self.least is not None and other.least is not None:
            least = self.least[0] & other.least[0], self.least[1] + other.least[1]
        return Sums(
            self.bits, 0.0 + self.centre + other.centre, size, far,
            {symbol: each + other.parts[symbol] for symbol, each in self.parts.items()},
            {symbol: each + other.radii[symbol] for symbol, each in self.radii.items()},
            _plus(self.rest, other.rest), marked(self.may, other.may), marked(self.overflows, other.overflows),
            np.minimum(self.low, other.low), np.maximum(self.high, other.high), least, self.keeps & other.keeps,
        )  # fmt: skip

    @property
    def is_mixed(self) -> Mask:
        """Mask of sums with terms of both signs."""
        return (self.low < 0) & (self.high > 0)

    @property
    def is_nan(self) -> Mask:
        """Mask of sums that are NaN in any order. Others may be NaN if partial sums overflow to both sides."""
        return np.isnan(self.low) | (np.isinf(self.low) & np.isinf(self.high))


def is_floored(here: SettledProblem, node: Node) -> bool:
    """Whether a sum of terms that are never negative may lose so much of them that a lower bound of the sum matters."""
    return not here.contract.flushes_results and bool(np.any(here.sum_errors(node, True)[1] > FAR))


def sums_of(here: SettledProblem, node: Node, terms: Form, counts: Sequence[float | F64]) -> Sums:
    """Return the sums of `counts` terms along the axes, from one element for each place or one for all."""
    inputs, axes = here.inputs, here.inputs.axes(node)
    number = dict(zip(axes, counts, strict=True))

    def summed(values: F64, along: Axes = axes) -> F64:
        wide = tuple(axis for axis in along if values.shape[axis] != 1)
        found = inputs.total(values, wide) if wide else values
        for axis in along:
            found = found if axis in wide else found * number[axis]
        return found

    size, far, least = summed(terms.size), None, None
    if not np.isfinite(size).all():
        finite = np.where(np.isinf(terms.centre), 0.0, terms.size)
        far = summed(finite), summed(terms.size * LESS)
    parts, radii = dict[Symbol, F64](), dict[Symbol, F64]()
    for symbol, coefficient in terms.parts.items():
        own = tuple(axis for axis in axes if symbol.radius.shape[axis] != 1)
        if not own:
            parts[symbol] = summed(coefficient)
        else:  # terms that share an error keep its sign
            coefficient = summed(coefficient, tuple(axis for axis in axes if axis not in own))
            radius = np.abs(coefficient) * symbol.radius
            radii[symbol] = summed(upwards(radius, here.dtype(node), coefficient, symbol.radius), own)
    if terms.least is not None:
        lowest = np.zeros((1,) * terms.centre.ndim)
        if is_floored(here, node):
            lowest = summed(np.maximum(here.lowest(terms), 0.0))
        least = _all_along(terms.least >= 0, axes), lowest
    low, high = (end.reduce(terms.centre, axes, keepdims=True, initial=0.0) for end in (np.minimum, np.maximum))
    keeps = np.ones((1,) * terms.centre.ndim, bool)
    if here.contract.denormals != "preserve":
        keeps = _all_along((here.lowest(terms) >= here.dtype(node).tiny) | (terms.size == 0), axes)
    return Sums(
        terms.bits, summed(terms.centre), size, far, parts, radii,
        None if terms.rest is None else summed(terms.rest),
        any_along(terms.may, axes), any_along(terms.overflows, axes), low, high, least, keeps,
    )  # fmt: skip


def sums_of_products(here: SettledProblem, node: Node, args: Sequence[Form]) -> Sums:
    """Return the sums of the products of two values."""
    inputs, axes = here.inputs, here.inputs.axes(node)
    a, b = args
    if not is_contraction(a.centre.shape, b.centre.shape, axes) or inputs.is_filled(axes):
        return _formed(here, node, args, [inputs.count((axis,)) for axis in axes])
    return _of_places(here, node, args, tuple(slice(0, inputs.extents[dim]) for dim in node.over))


def _of_places(here: SettledProblem, node: Node, args: Sequence[Form], places: Places) -> Sums:
    """Return the sums of the products at some places of the axes, split in halves if there are too many at once."""
    axes, own = here.inputs.axes(node), dict[Symbol, Symbol]()
    a, b = (_at(arg, axes, places, own) for arg in args)
    lengths = [each.stop - each.start for each in places]
    if _are_ordinary(here, node, a, b):
        found = _by_matrices(here, node, a, b, lengths)
    elif is_contraction(a.centre.shape, b.centre.shape, axes):
        shapes = [max(a.centre.shape[axis], b.centre.shape[axis]) for axis in axes]
        first, second = (_of_places(here, node, args, each) for each in _halves(places, shapes.index(max(shapes))))
        return first + second
    else:
        found = _formed(here, node, (a, b), lengths)
    parts, radii = dict[Symbol, F64](), dict[Symbol, F64]()
    for symbol, each in own.items():
        if each in found.radii:
            radii[symbol] = found.radii[each]
        elif each is symbol:
            parts[symbol] = found.parts[each]
        else:  # of a single term
            coefficient = found.parts[each]
            radii[symbol] = upwards(np.abs(coefficient) * each.radius, here.dtype(node), coefficient, each.radius)
    return fields_replaced(found, parts=parts, radii=radii)


def _halves(places: Places, at: int) -> tuple[Places, Places]:
    """Return two halves of the places, along one of their axes."""
    start, stop = places[at].start, places[at].stop
    middle = (start + stop) // 2
    first, second = ((*places[:at], half, *places[at + 1 :]) for half in (slice(start, middle), slice(middle, stop)))
    return first, second


def _formed(here: SettledProblem, node: Node, args: Sequence[Form], counts: Sequence[float | F64]) -> Sums:
    products = product(here, node, args, False, here.contract.fused)
    return sums_of(here, node, taken(products, here.contract), counts)


def _at(form: Form, axes: Axes, places: Places, own: dict[Symbol, Symbol]) -> Form:
    """Return the form at some places of axes. A symbol whose errors differ along them becomes a new one in `own`."""
    for symbol in form.parts:
        alike = all(symbol.radius.shape[axis] == 1 for axis in axes)
        own.setdefault(symbol, symbol if alike else Symbol(part(symbol.radius, axes, places)))
    arrays = {name: getattr(form, name) for name in ("centre", "rest", "may", "overflows", "least")}
    found = {name: None if each is None else part(each, axes, places) for name, each in arrays.items()}
    return replace(form, **found, edge=None, parts={own[s]: part(each, axes, places) for s, each in form.parts.items()})


def _are_ordinary(here: SettledProblem, node: Node, a: Form, b: Form) -> bool:
    """Whether no product under- or overflows, and the factors share no errors.

    With spreads s and |c| >= 4 s, the magnitude of a product is at least |c c'| - |c| s' - |c'| s - s s', minus a
    rounding of at most 2^-4 of it; that is more than half of (|c| - 4 s) (|c'| - 4 s').
    """
    dtype = here.dtype(node)
    floor, top = 0.5, 2.0
    for each in (a, b):
        floor *= float(np.min(np.abs(each.centre) - 4 * each.spread, initial=np.inf, where=each.size > 0))
        top *= float(np.max(each.size, initial=0.0))
        if floor <= 0:
            return False
    floored = a.least is not None and b.least is not None and is_floored(here, node)
    fit = floor >= max(dtype.tiny, SMALL) and top < min(dtype.limit, LARGE)
    return fit and a.parts.keys().isdisjoint(b.parts) and not floored


def _by_matrices(here: SettledProblem, node: Node, a: Form, b: Form, lengths: Sequence[int]) -> Sums:
    """Return the sums of ordinary products, whose forms `oracles.formula.affine.operations.product` would make."""
    axes, dtype, bits = here.inputs.axes(node), here.dtype(node), bits_of_product(a, b)
    n = math.prod(lengths)

    def by(first: F64, second: F64) -> F64:
        wide = [*first.shape]
        for axis, length in zip(axes, lengths, strict=True):
            wide[axis] = length if second.shape[axis] == 1 else wide[axis]
        return contracted(np.broadcast_to(first, wide), second, axes)

    def errors(first: F64, second: F64) -> F64:
        """Return sums of products of magnitudes, rounded up where products underflow."""
        found = by(first, second)
        if extremes(first)[0] * extremes(second)[0] >= SMALL:
            return found
        return found + np.where(by(np.sign(first), np.sign(second)) > 0, n * ETA, 0.0)

    parts, radii, rest = dict[Symbol, F64](), dict[Symbol, F64](), list[F64]()
    size = by(np.abs(a.centre), np.abs(b.centre))
    for each, factor in ((a, b.centre), (b, a.centre)):
        for symbol, coefficient in each.parts.items():
            radius = errors(np.abs(coefficient) * symbol.radius, np.abs(factor))
            size = size + radius
            if any(symbol.radius.shape[axis] > 1 for axis in axes):
                radii[symbol] = radius
            else:  # coefficients that cancel are off by n roundings of their magnitudes
                parts[symbol] = by(coefficient, factor)
                rest.append(n * (radius * 2.0**-52 + (symbol.radius * ETA if dtype is DOUBLE else 0.0)))
        if not each.is_exact:
            own = each.spread * DUST
            rest.append(errors(own if each.rest is None else own + each.rest, np.abs(factor)))
    if not (a.is_exact or b.is_exact):
        rest.append(errors(here.far(a), here.far(b)))
    size = size + sum(rest)
    if bits > dtype.precision:
        rest.append(size * (dtype.u + dust(dtype)))
        size = size + rest[-1]
    signs = np.sign(a.centre), np.sign(b.centre)
    alike, count = by(*signs), by(np.abs(signs[0]), np.abs(signs[1]))
    least = None
    if a.least is not None and b.least is not None:
        least = _all_along(a.least >= 0, axes) & _all_along(b.least >= 0, axes), np.zeros_like(size)
    return Sums(
        min(bits, dtype.precision), by(a.centre, b.centre), size, None, parts, radii,
        sum(rest[1:], rest[0]) if rest else None,
        any_along(either((a, b)), axes), None, alike - count, alike + count, least, alike == count,
    )  # fmt: skip


def any_along(mask: Mask | None, axes: Axes) -> Mask | None:
    """Return the mask of rows along axes in which a mask is set somewhere."""
    return None if mask is None else np.asarray(np.logical_or.reduce(mask, axes, keepdims=True))


def _all_along(mask: Mask, axes: Axes) -> Mask:
    return np.asarray(np.logical_and.reduce(mask, axes, keepdims=True))


def _plus(a: F64 | None, b: F64 | None) -> F64 | None:
    return (b if a is None else a) if a is None or b is None else a + b
