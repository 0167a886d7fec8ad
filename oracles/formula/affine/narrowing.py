"""Narrowing: a value that every kernel rounds to a narrower dtype is one number of this dtype, or one of a few.

Values in [c - R, c + R] round to numbers between the roundings of both ends. Mostly that is a single number: then every
kernel has it, whatever its errors were, and the value is exact from there on. An added rounding error would say less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.elementary.function import Elementary
from oracles.formula.affine.errors import Rounding, marked, rounded, taken, zeroed
from oracles.formula.affine.forms import Form, Mask, blended, replace
from oracles.formula.contract import Contract
from oracles.rounding import round_to

_ALIKE = 2.0**-38
"""Two errors that differ by less than this share count as equal, since which of them is larger may depend on the rows
that are calculated in the same call."""


@dataclass(frozen=True, eq=False)
class Spread:
    """How far kernels' values may lie from float64's centre, which itself may be wrong."""

    most: F64 | float
    chance: F64 | float
    """The uncertainty of `most`: float64 has its own errors, which depend on the rows calculated in the same call."""


ALIKE = Spread(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Narrowed:
    """A form as an operation or a rounding point uses it, rounded to a dtype that does not hold all its values."""

    form: Form
    held: F64 | None = None
    """The centres that replace the formula's own values from here on: the number that every kernel has, or the middle
    of a few. NaN: the formula's own value stays."""
    doubt: Mask | None = None
    """Mask of elements for which float64's error decides whether kernels have one number of the dtype, or two."""


def holds(form: Form, dtype: Format) -> bool:
    """Whether a dtype holds all values of a form."""
    return form.bits <= dtype.precision and form.dtype.emin >= dtype.emin and form.dtype.max <= dtype.max


def narrowed(form: Form, dtype: Format, contract: Contract, spread: Spread = ALIKE, *, point: bool = False) -> Narrowed:
    """Return the form rounded to a dtype. Where values may round to more than two numbers, their errors are far larger
    than the rounding. The rounding is then added as an error, so that the other errors can still cancel later, which
    bounds between two numbers cannot. A declared `point` always gives such bounds."""
    narrow = replace(form, dtype=dtype, bits=min(form.bits, dtype.precision))
    flush = contract.flushes_results
    least = None if form.least is None else np.minimum(_in_dtype(form.least, dtype), 0.0 if flush else np.inf)
    if form.is_exact:
        middle = _in_dtype(form.centre, dtype)
        return Narrowed(zeroed(replace(narrow, centre=middle, least=least), flush), _held(form, middle, True))
    alike = np.equal(spread.most, 0)
    low, high, doubt = _candidates(form.centre, spread, partial(_ends, dtype=dtype, flush=flush))
    if flush:  # as after an operation, a value that may be flushed is itself the centre
        low, high = np.where(alike & (low == 0), high, low), np.where(alike & (high == 0), low, high)
    one = low == high
    radius = np.where(one, 0.0, (high - low) / 2)
    middle = np.where(one, low, low + radius)
    if least is not None and (below := (middle < least) & ~one).any():  # no kernel has that: it may be a pole
        middle = np.where(below, _in_dtype(form.centre, dtype), middle)
        radius = np.where(below, np.maximum(high - middle, middle - least), radius)
    sharp = one | np.isfinite(radius)
    if not middle.all():  # zeros keep the sign of the unrounded value, if it is known
        middle, known = _signed(form, middle, spread)
        sharp &= known
    if not (point or one.all()):
        own = dtype.u * np.maximum(form.size, dtype.tiny)
        sharp &= radius <= own
        close = ~one & (np.abs(radius - own) <= own * _ALIKE)
        by_chance = close if doubt is None else close | doubt & ~_is_wide(form, spread, dtype, flush)
        doubt = by_chance if by_chance.any() else None
    if flush:
        radius = np.where(alike & (np.abs(middle) < dtype.tiny), np.abs(middle), radius)
    found = replace(narrow, centre=middle, parts={}, rest=radius if radius.any() else None, least=least)
    if sharp.all():
        return Narrowed(found, _held(form, middle, alike), doubt)
    loose = rounded(narrow, Rounding(dtype.u if form.bits > dtype.precision else 0.0), contract)
    return Narrowed(blended(sharp, found, loose), _held(form, np.where(sharp, middle, np.nan), alike), doubt)


def maybe_narrowed(form: Form, dtype: Format, contract: Contract) -> Form:
    """Return a form that some kernels round to a dtype, with the rounding as a further error of each element."""
    found = taken(rounded(replace(form, dtype=dtype), Rounding(dtype.u, fused=True), contract), contract)
    beyond = np.zeros(form.size.shape, bool)
    if dtype.max > form.dtype.max:  # rounding up there may exceed the form's own dtype
        beyond |= round_to(form.size, dtype) >= form.dtype.limit
    if not dtype.infinities or contract.nonfinite != "ieee":  # overflow there may give NaN
        beyond |= ~(form.size < dtype.limit)
    beyond &= np.isfinite(form.centre)
    return replace(found, dtype=form.dtype, may=marked(found.may, beyond) if beyond.any() else found.may)


def _held(form: Form, middle: F64, alike: Mask | bool) -> F64 | None:
    """Return `middle`, by which centres are replaced (see `Narrowed.held`), but NaN where every kernel has the
    formula's own value. None if that is everywhere."""
    same = alike & (middle == form.centre)
    return None if same.all() else np.where(same, np.nan, middle)


def _is_wide(form: Form, spread: Spread, dtype: Format, flush: bool) -> Mask:
    """Return the mask of elements whose values lie further apart than any rounding, however wrong float64 is: by at
    most `most`. The ends lie 2 `most` apart, and are each rounded by at most u of their size, or to zero."""
    moved = 8 * dtype.u * (form.size + spread.most + dtype.tiny)
    return np.asarray(spread.most > (moved + 2 * dtype.tiny if flush else moved))


def _signed(form: Form, middle: F64, spread: Spread) -> tuple[F64, Mask]:
    """Return the values with signed zeros, and the mask of values that are not zero or have a known sign."""
    positive = np.zeros(middle.shape, bool) if form.least is None else form.least >= 0
    sign = np.where(positive, 1.0, form.centre)
    known = (np.abs(form.centre) > spread.most) | np.equal(spread.most, 0) | positive
    return np.where(middle == 0, np.copysign(0.0, sign), middle), known | (middle != 0)


def stepped(form: Form, of: Elementary, arg: Form, spread: Spread) -> Narrowed:
    """Return the form of a function that is constant except at jumps: one value if no jump lies among the argument's
    values, else the values on both sides of the jump."""
    if arg.is_exact:
        return Narrowed(form)
    value = of.float64.value
    low, high, doubt = _candidates(arg.centre, spread, lambda centre, far: (value(centre - far), value(centre + far)))
    several = (low != high) & np.isfinite(arg.centre)
    radius = np.where(several, (high - low) / 2, 0.0)
    held = several & np.isfinite(radius)
    middle = np.where(held, low + radius, form.centre)
    found = replace(form, centre=middle, parts={}, rest=radius if several.any() else None)
    return Narrowed(found, np.where(held, middle, np.nan) if held.any() else None, doubt)


def _candidates(
    centre: F64, spread: Spread, ends: Callable[[F64, F64 | float], tuple[F64, F64]]
) -> tuple[F64, F64, Mask | None]:
    """Return the numbers that both ends are rounded to, and the mask of those that float64 cannot tell, or None."""
    low, high = ends(centre, spread.most + spread.chance)
    apart = low != high
    if not apart.any():
        return low, high, None
    middle, most, less = (
        np.broadcast_to(each, apart.shape)[apart] for each in (centre, spread.most, spread.most - spread.chance)
    )
    doubt = np.zeros(apart.shape, bool)
    inner = ends(middle, np.maximum(less, 0.0))
    doubt[apart] = (low[apart] != inner[0]) | (high[apart] != inner[1])
    del inner, less  # the longest rows need the memory
    low[apart], high[apart] = ends(middle, most)
    doubt &= np.isfinite(low) & np.isfinite(high)
    return low, high, doubt if doubt.any() else None


def _ends(centre: F64, spread: F64 | float, dtype: Format, flush: bool) -> tuple[F64, F64]:
    """Return the numbers that the ends round to; an end that may be flushed is moved to zero."""
    low, high = (_in_dtype(np.asarray(centre + side * spread), dtype) for side in (-1.0, 1.0))
    if flush:
        low = np.where((low > 0) & (low < dtype.tiny), 0.0, low)
        high = np.where((high < 0) & (high > -dtype.tiny), 0.0, high)
    return low, high


def _in_dtype(values: F64, dtype: Format) -> F64:
    """Return the rounded values; overflow in a format without infinity gives NaN."""
    found = round_to(values, dtype)
    return found if dtype.infinities else np.where(np.isinf(found), np.nan, found)
