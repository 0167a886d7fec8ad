"""Affine forms: a computed value as its exact value plus the effect of rounding errors, to first order with signs.

A form is c + sum over symbols s of a_s e_s + rest, with |e_s| <= r_s. Symbols are errors that many elements share: of a
mean, a maximum, a reciprocal root. Their coefficients are signed, so that what cancels in the formula cancels here. The
rest is each element's own and includes second-order terms: every operation adds its own remainder, so that nothing is
lost (for functions, Taylor's remainder; see `oracles.elementary.function.Tangent`). All fields are float64 numbers,
whose roundings `DUST` covers, and `Budget.half_width` at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format
from oracles.formula.exact.contraction import Axes, Places, part
from oracles.lazy import lazy
from oracles.ranks import Ranks

Mask = NDArray[np.bool_]

DUST = 2.0**-50
"""The share of an error by which it grows with each operation, to cover roundings of coefficients that cancel."""


def dust(dtype: Format) -> float:
    """Return the relative error that each operation adds to cover the error of a float64 centre: none in f64, where
    `SettledProblem.far` covers it."""
    return 0.0 if dtype is DOUBLE else DUST


ETA = 2.0**-1074
"""The smallest number of float64."""


def upwards(values: F64, dtype: Format, *factors: F64 | float) -> F64:
    """Return products of magnitudes. In f64, where they may underflow, `ETA` is added to each, unless a factor is 0."""
    if dtype is not DOUBLE:
        return values
    lost: Mask | bool = True
    for each in factors:
        lost = lost & np.not_equal(each, 0)
    return values + np.where(lost, ETA, 0.0)


ANY = 1 << 10
"""The `bits` of an unrounded value: more than float64 has."""


Weights = Sequence[Sequence[F64]]
"""The weights of a sum, as sums of products of factors: an array of all would be larger than any other array."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """An error that many elements share."""

    radius: F64
    summed: Summed | None = None
    """The terms, if the error is a sum of another symbol's errors."""


@dataclass(frozen=True, eq=False)
class Summed:
    """A weighted sum of a symbol's errors along axes. Other values that depend on the same errors may cancel some of it
    (see `oracles.formula.affine.errors`)."""

    errors: Symbol
    weights: Weights
    axes: Axes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array of all weights."""
        factors = (each.shape for factors in self.weights for each in factors)
        return tuple(map(max, self.errors.radius.shape, *factors))

    def weighted(self, places: Places) -> F64:
        """Return the errors' radii times their weights, at some places of the axes."""
        each = (reduce(mul, (part(factor, self.axes, places) for factor in factors)) for factors in self.weights)
        found: F64 = reduce(add, each) * part(self.errors.radius, self.axes, places)
        return found


@dataclass(frozen=True, eq=False)
class Edge:
    """Allowed values of elements that lie outside their forms, or ends that are closer than those of the forms (see
    `oracles.formula.affine.edges`)."""

    zero: Mask
    """Mask of elements that may also be zero: they were divided by something that may overflow."""
    nan: Mask
    """Mask of elements that may also be NaN: they are zero times something that may be infinite."""
    floor: F64
    """The least value that an element may have, times the sign of its centre. NaN: the element lies within its form."""
    ceiling: F64
    """The largest value, times the sign of the centre: infinity, or a number, in which case the form holds as well."""

    @property
    def open(self) -> Mask:
        """Mask of elements for which only the floor is known."""
        return np.isinf(self.ceiling)

    @property
    def known(self) -> Mask:
        """Mask of elements about which the edge says something."""
        return self.zero | self.nan | ~np.isnan(self.floor)

    @property
    def lost(self) -> Mask:
        """Mask of elements for which a form without the edge would be wrong."""
        return self.zero | self.nan | self.open


_UNKNOWN = Edge(np.array(False), np.array(False), np.array(np.nan), np.array(np.nan))


@dataclass(frozen=True, eq=False)
class Form:
    """A value as a kernel computes it. Arrays broadcast against each other."""

    centre: F64
    """The exact value of the formula; infinite where it certainly overflows."""
    dtype: Format
    """The format of the values."""
    bits: int
    """A number of significant bits that suffices for its values: products of few bits are exact."""
    parts: Mapping[Symbol, F64] = field(default_factory=dict)
    """The coefficient of each symbol, which is an error that many elements share; broadcasts with `centre`."""
    rest: F64 | None = None
    may: Mask | None = None
    """Mask of elements that may be infinite or NaN, depending on how a kernel calculates."""
    overflows: Mask | None = None
    """Mask of elements that some kernels may have as an infinity of the centre's sign, others as the form says."""
    ranks: Ranks | None = None
    """The ranks that elements may have, if the values are places of elements of a rank."""
    least: F64 | None = None
    """A lower bound of the value in every kernel, which does not depend on errors: 0 for squares and their sums, for
    example. NaN: there is none."""
    edge: Edge | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every kernel has exactly these values."""
        return not self.parts and self.rest is None

    @property
    def is_one(self) -> Mask:
        """Mask of elements that are 1 or -1 in every kernel."""
        known = (np.abs(self.centre) == 1) & (self.spread == 0)
        return np.asarray(known if self.may is None else known & ~self.may)

    @lazy
    def spread(self) -> F64:
        """Return how far a kernel's value may lie from the centre."""
        found = np.zeros((1,) * self.centre.ndim) if self.rest is None else self.rest
        for symbol, coefficient in self.parts.items():
            found = found + upwards(np.abs(coefficient) * symbol.radius, self.dtype, coefficient, symbol.radius)
        return found

    def forget(self) -> None:
        """Drop cached values that can be computed again."""
        for name in ("spread", "size", "lowest"):
            self.__dict__.pop(name, None)

    @lazy
    def size(self) -> F64:
        """Return the largest magnitude that a kernel's value may have."""
        found: F64 = np.abs(self.centre) + self.spread
        return found

    @lazy
    def lowest(self) -> F64:
        """Return the smallest value that a kernel may have."""
        found: F64 = self.centre - self.spread * (1 + DUST)
        return found if self.least is None else np.fmax(found, self.least)


_FIELDS = tuple(each.name for each in fields(Form))


def replace(form: Form, **changes: Any) -> Form:
    """Return the form with other fields, in a fifth of the time that `dataclasses.replace` takes."""
    found: Form = object.__new__(Form)
    known = form.__dict__
    for name in _FIELDS:
        found.__dict__[name] = known[name]
    found.__dict__.update(changes)
    return found


def blended(mask: Mask, a: Form, b: Form) -> Form:
    """Return `a` where the mask is set, and elsewhere `b`, whose dtype and bits the result has."""

    def either(of_a: NDArray[Any] | None, of_b: NDArray[Any] | None, none: Any) -> NDArray[Any] | None:
        """Return the arrays blended, with `none` in place of a missing one; None if both are missing."""
        if of_a is None and of_b is None:
            return None
        return np.where(mask, none if of_a is None else of_a, none if of_b is None else of_b)

    edge = b.edge
    if a.edge is not edge:
        one, other = (_UNKNOWN if each is None else each for each in (a.edge, b.edge))
        edge = Edge(*(np.where(mask, getattr(one, each.name), getattr(other, each.name)) for each in fields(Edge)))
    zero = np.zeros((1,) * b.centre.ndim)
    return replace(
        b,
        edge=edge,
        centre=np.where(mask, a.centre, b.centre),
        parts={s: np.where(mask, a.parts.get(s, zero), b.parts.get(s, zero)) for s in {**a.parts, **b.parts}},
        rest=either(a.rest, b.rest, 0.0),
        may=either(a.may, b.may, False),
        overflows=either(a.overflows, b.overflows, False),
        least=either(a.least, b.least, np.nan),
    )


def combined(
    terms: Sequence[tuple[Form, F64 | None]], remainder: F64 | None = None
) -> tuple[dict[Symbol, F64], F64 | None]:
    """Return `parts` and `rest` of a sum of forms times exact factors (None: 1), and of a further `remainder`."""
    parts: dict[Symbol, F64] = {}
    rest = remainder
    for form, factor in terms:
        if form.is_exact:
            continue
        for symbol, coefficient in form.parts.items():
            term = coefficient if factor is None else factor * coefficient
            parts[symbol] = parts[symbol] + term if symbol in parts else term
            if factor is not None and form.dtype is DOUBLE:
                rest = _vanished(term, factor, coefficient, symbol, rest)
        spread = form.spread * DUST
        if form.rest is not None:
            spread = spread + form.rest
        spread = spread if factor is None else upwards(np.abs(factor) * spread, form.dtype, factor, spread)
        rest = spread if rest is None else rest + spread
    return parts, rest


def _vanished(term: F64, factor: F64, coefficient: F64, symbol: Symbol, rest: F64 | None) -> F64 | None:
    """Return the rest, enlarged by what a coefficient loses when it underflows."""
    lost = (np.abs(term) < 2.0**-1021) & (factor != 0) & (coefficient != 0) & (symbol.radius > 0)
    if not lost.any():
        return rest
    more = np.where(lost, symbol.radius * ETA + ETA, 0.0)
    return more if rest is None else rest + more


def shared(form: Form) -> Form:
    """Return the form with its rest as a symbol, so that all elements that use it share the same error."""
    if form.rest is None or not form.rest.any():
        return form
    radius = np.broadcast_to(form.rest, np.broadcast_shapes(form.rest.shape, form.centre.shape))
    size = np.ones((1,) * form.centre.ndim)
    if form.dtype is DOUBLE:  # in proportion to the value, so that products of many values stay in float64's range
        size = np.where(np.isfinite(form.centre) & (form.centre != 0), np.ldexp(0.5, np.frexp(form.centre)[1]), 1.0)
        radius = upwards(radius / size, form.dtype, radius)
    return replace(form, parts={**form.parts, Symbol(radius): size}, rest=None)
