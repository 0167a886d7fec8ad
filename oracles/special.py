"""Fast tier: what NaN, infinities, overflow and division by zero make of enclosures, as data instead of comparisons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oracles.doubledouble import F64, head
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED, Enclosure, Flags, Mask, any_of
from oracles.rows import Roots


def patched(
    enclosure: Enclosure, found: Roots, x: F64, weight: F64 | None, broken: Mask | None, unspecified: bool
) -> Enclosure:
    """Elements (rows, n) of special rows. Where `broken` the weight is not finite.

    IEEE arithmetic of the declaration: one NaN makes its row NaN; one inf makes rstd 0, so NaN at the inf and zeros
    elsewhere; a sum that overflows makes rstd 0; 0 * inf is NaN where rstd may be infinite. A weight of NaN makes NaN,
    an infinite one NaN of zero and infinities of numbers; where a row is special besides, the precise tier has that.
    """
    none = np.zeros(len(x), bool)
    dead, nan_rows, pole, zero, unsure = (
        none if mask is None else mask for mask in (found.dead, found.nan, found.pole, found.zero, found.unsure)
    )
    infinite = np.isinf(x)
    nan = np.zeros(x.shape, np.int8) if enclosure.nan is None else enclosure.nan.copy()
    null = x == 0 if weight is None else (x == 0) | (weight == 0)
    at_pole = pole[:, None] & null
    nan[at_pole] = ALLOWED
    nan[nan_rows] = REQUIRED
    nan[infinite] = REQUIRED
    maybe = np.broadcast_to(unsure[:, None], x.shape).copy()
    if enclosure.unsure is not None:
        maybe |= enclosure.unsure
    if broken is not None and weight is not None:
        special = dead | nan_rows | pole | zero | unsure
        plain = ~special[:, None] & ~infinite & bool(not unspecified and enclosure.form.infinities)
        of_nan, of_zero = plain & np.isnan(weight), plain & np.isinf(weight) & (x == 0)
        nan[of_nan | of_zero] = REQUIRED
        maybe |= broken & ~(of_nan | of_zero | (plain & (enclosure.outer[0] == np.inf)))
    fixed = (dead[:, None] | null) & (nan != REQUIRED)
    result = _patched(enclosure, fixed, maybe, nan, np.broadcast_to(zero[:, None], x.shape))
    if not unspecified:
        return result
    special = dead | nan_rows | pole | zero | any_of(~np.isfinite(x))
    elsewhere = np.ones(x.shape[1], bool) if broken is None else ~broken
    return _unjudged(result, np.broadcast_to(special[:, None], x.shape) & elsewhere)


def patched_rows(enclosure: Enclosure, found: Roots, unspecified: bool) -> Enclosure:
    """The same for one value of rstd per row."""
    none = np.zeros(enclosure.inner[0].shape, bool)
    dead, nan_rows, pole, zero, unsure = (
        none if mask is None else mask for mask in (found.dead, found.nan, found.pole, found.zero, found.unsure)
    )
    nan = np.where(nan_rows, REQUIRED, FORBIDDEN).astype(np.int8)
    result = _patched(enclosure, dead, unsure, nan, zero)
    return _unjudged(result, dead | nan_rows | pole | zero) if unspecified else result


def _patched(enclosure: Enclosure, zero: Mask, unsure: Mask, nan: Flags, maybe: Mask) -> Enclosure:
    low, high = (np.where(zero, 0.0, end) for end in enclosure.inner)
    return replace(
        enclosure,
        centre=np.where(zero, 0.0, head(enclosure.centre)) if zero.any() else enclosure.centre,
        below=np.where(zero, 0.0, enclosure.below),
        above=np.where(zero, 0.0, enclosure.above),
        inner=(np.where(unsure, np.nan, low), np.where(unsure, np.nan, high)),
        outer=(np.where(zero, 0.0, enclosure.outer[0]), np.where(zero, 0.0, enclosure.outer[1])),
        nan=nan,
        zero=maybe,
        unsure=unsure,
    )


def _unjudged(enclosure: Enclosure, free: Mask) -> Enclosure:
    assert enclosure.nan is not None
    nan = np.where(free, ALLOWED, enclosure.nan).astype(np.int8)
    return replace(enclosure, nan=nan, unjudged=free)
