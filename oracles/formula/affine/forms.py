"""Affine forms: a computed value as its exact value plus the effect of rounding errors, to first order with signs.

A form is c + sum over symbols s of a_s e_s + rest, with |e_s| <= r_s. Symbols are errors that many elements share: of a
mean, a maximum, a reciprocal root. Their coefficients are signed, so that what cancels in the formula cancels here. The
rest is elementwise and includes second-order terms: every operation adds its own remainder, so that nothing is lost
(for functions, Taylor's remainder; see `oracles.formula.exact.derivatives`). All of it is float64, whose own errors are
covered by `DUST`, and by `Budget` at the end.
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
"""Errors grow by this factor with each operation: that covers float64 coefficients that cancel."""


def dust(dtype: Format) -> float:
    """Return the relative error that is added to each operation's: it covers the error of a float64 centre. A kernel
    that itself calculates in float64 gets no more than it needs, see `Setting.far`."""
    return 0.0 if dtype is DOUBLE else DUST


ETA = 2.0**-1074
"""The smallest number of float64."""


def upwards(values: F64, dtype: Format, *factors: F64 | float) -> F64:
    """Return an upper bound for a product of magnitudes that may underflow if kernels calculate in float64. 0 stays
    0."""
    if dtype is not DOUBLE:
        return values
    lost: Mask | bool = True
    for each in factors:
        lost = lost & np.not_equal(each, 0)
    return values + np.where(lost, ETA, 0.0)


ANY = 1 << 10
"""The bits of an unrounded value: more than float64 has."""


Weights = Sequence[Sequence[F64]]
"""Products of factors, which are added up: an array of all of them would be larger than any other."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """An error that many elements share."""

    radius: F64
    summed: Summed | None = None
    """The sum that it is, if it is one."""


@dataclass(frozen=True, eq=False)
class Summed:
    """A sum of a symbol's errors along axes, with weights: other values that depend on the same errors may cancel some
    of it, see `oracles.formula.affine.errors`."""

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
    """Values that an element may have although its form excludes them; see `oracles.formula.affine.edges`."""

    zero: Mask
    """Where it may also be zero: it was divided by something that may overflow."""
    nan: Mask
    """Where it may also be NaN: zero times something that may be infinite."""
    floor: F64
    """The least magnitude, with the centre's sign, from which on it may be anything. NaN: the form always holds."""
    ceiling: F64
    """The largest magnitude there: infinity, or a number that the form knows, in which case the form says less about
    the other end."""

    @property
    def open(self) -> Mask:
        """Where only the floor is known."""
        return np.isinf(self.ceiling)

    @property
    def known(self) -> Mask:
        """Where the edge says something."""
        return self.zero | self.nan | ~np.isnan(self.floor)

    @property
    def lost(self) -> Mask:
        """Where a form without the edge would be wrong."""
        return self.zero | self.nan | self.open


_UNKNOWN = Edge(np.array(False), np.array(False), np.array(np.nan), np.array(np.nan))


@dataclass(frozen=True, eq=False)
class Form:
    """A value as a kernel computes it. Arrays broadcast against each other."""

    centre: F64
    """The exact value of the formula; infinite where it certainly overflows."""
    dtype: Format
    """The format of its values."""
    bits: int
    """A number of significant bits that is enough for its values: products of few bits are exact."""
    parts: Mapping[Symbol, F64] = field(default_factory=dict)
    """The coefficients of symbols."""
    rest: F64 | None = None
    may: Mask | None = None
    """Where it may be infinite or NaN, depending on how a kernel calculates."""
    overflows: Mask | None = None
    """Where it is either an infinity of the centre's sign or as the form says: some kernels do not round a product
    inside a sum."""
    ranks: Ranks | None = None
    """The possible places, if the values are places of elements of some rank."""
    least: F64 | None = None
    """A lower bound for every kernel's value, whatever its errors: squares and sums of them are at least 0. NaN:
    unknown."""
    edge: Edge | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every kernel has just this value."""
        return not self.parts and self.rest is None

    @property
    def is_one(self) -> Mask:
        """Where every kernel has 1 or -1."""
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
    """Return the form with other fields, like `dataclasses.replace` in a fifth of its time: every operation calls
    it."""
    found: Form = object.__new__(Form)
    known = form.__dict__
    for name in _FIELDS:
        found.__dict__[name] = known[name]
    found.__dict__.update(changes)
    return found


def blended(mask: Mask, a: Form, b: Form) -> Form:
    """Return one form where the mask is set, and elsewhere the other, whose dtype and bits the result has."""

    def either(of_a: NDArray[Any] | None, of_b: NDArray[Any] | None, none: Any) -> NDArray[Any] | None:
        """Return each array where it is given, with `none` in place of a missing one; None if both are missing."""
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
    """Return coefficients and rest of a sum of forms times exact factors (None: 1), and a remainder."""
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
    """Return the rest plus what a coefficient loses when it underflows."""
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
    if form.dtype is DOUBLE:  # in proportion to the value: products of many values are numbers of float64 as well
        size = np.where(np.isfinite(form.centre) & (form.centre != 0), np.ldexp(0.5, np.frexp(form.centre)[1]), 1.0)
        radius = upwards(radius / size, form.dtype, radius)
    return replace(form, parts={**form.parts, Symbol(radius): size}, rest=None)
