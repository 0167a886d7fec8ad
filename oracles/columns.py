"""dw = sum over rows of dy h with h = x r: both tiers.

Where the contract casts like llama, h and the product are rounded to x's dtype: declared rounding points. The sum over
rows has its own dtype and order. The tiers share the numbers of the budget and the decision which columns are not
judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import are_coarse, rounding, sum_budget, underflow
from oracles.doubledouble import Real, chosen, exponents, head, stacked, zeroed
from oracles.dtypes import Format, form
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED, Enclosure, Mask, doubtful, rounded
from oracles.gradient import SpecialRows
from oracles.lazy import lazy
from oracles.numerics import Numerics
from oracles.operand import RowOperand
from oracles.precise import Bounds, RowBounds
from oracles.rows import FLOAT64, OWN, SIDE, Roots
from oracles.scaling import LOST, LOWEST, ScaledRows, Shift, scaled_rows, times, times_float
from oracles.steps import inexact, point

_LEAST = -500
"""The smallest exponent by which dy is scaled: what is added for underflow then stays finite."""


@dataclass(frozen=True)
class Columns:
    """dw of one problem under one settled contract. `status` is that of the rows."""

    x: RowOperand
    dy: RowOperand
    found: Roots
    status: SpecialRows
    numerics: Numerics
    narrowed: int
    """The number of roundings of rstd before anything is multiplied by it."""
    structured: bool

    @property
    def accumulator(self) -> Format:
        """The dtype of the sum over rows."""
        return form(self.numerics.dw_accumulate)

    @property
    def multiply(self) -> Format:
        """The dtype of the products."""
        return form(self.numerics.multiply or self.numerics.accumulate)

    @property
    def delta(self) -> float:
        """Relative budget of the sum over rows."""
        chain = self.numerics.dw_summation.chain(len(self.x.values)) + 1
        coarse = are_coarse(self.x.dtype, self.dy.dtype, self.accumulator)
        return sum_budget(self.accumulator, chain, self.structured or coarse)[1]

    @property
    def lost(self) -> float:
        """Absolute budget of the sum: terms that underflow as they enter the accumulator."""
        return len(self.x.values) * underflow(self.accumulator, self.numerics)

    @lazy
    def special(self) -> tuple[Mask, Mask, Mask]:
        """(n,) columns that are NaN, that are NaN or infinite, and that are not judged."""
        with np.errstate(all="ignore"):
            r = head(self.found.stack)[0]
            if self.found.dead is not None:
                r = np.where(self.found.dead, 0.0, r)
            terms = self.dy.values * (self.x.values * r[:, None])
            sizes = np.add.reduce(np.abs(terms), axis=0)
            inputs = np.isfinite(self.x.values) & np.isfinite(self.dy.values)
            nan = np.logical_or.reduce(np.isnan(terms) & ~(inputs & np.isfinite(r)[:, None]), axis=0)
            infinite = ~nan & np.logical_or.reduce(np.isinf(terms) & ~inputs, axis=0)
            doubtful = [mask for mask in (self.found.zero, self.found.pole) if mask is not None]
            limit = min(self.accumulator.max, self.multiply.max) / 4
            if self.numerics.cast == "llama":  # which rounds the products to x's dtype
                limit = min(limit, self.x.dtype.max / 4)
            # x r is formed first, and may overflow where its product with dy would not.
            sizes = np.maximum(sizes, np.maximum.reduce(np.abs(self.x.values) * r[:, None], axis=0, initial=0.0))
            rows = np.logical_or.reduce([np.isinf(r), *doubtful]) & ~np.isnan(r)
            unjudged = ~nan & ~infinite & (bool(rows.any()) | ~(sizes < limit))
        return nan, infinite, unjudged

    @lazy
    def scale(self) -> Shift:
        """Exponent by which dy is scaled, in double-double arithmetic and without declared rounding points."""
        if self.x.squares.arithmetic is FLOAT64 or self.numerics.cast == "llama":
            return 0
        return np.maximum(exponents(self.dy.values.reshape(-1), 0), _LEAST)

    def enclose(self, target: Format) -> Enclosure:
        """Fast tier: (n,) enclosure of dw."""
        arithmetic, scale = self.x.squares.arithmetic, self.scale
        terms = self._terms()
        positive = self.x.negative == self.dy.negative
        inner, total = head(terms[3:].sum(1))
        ends = [
            chosen(positive, terms[plus], -terms[minus]).sum(0)
            for plus, minus in ((0, 0), (1, 4), (2, 3), (3, 2), (4, 1))
        ]
        width = self.delta * total
        own = arithmetic.ulp * (len(self.x.values) + 40) * total + width * 2.0**-40
        # The inner budget must not use the outer sum: it is smaller by the fast tier's own error of the terms.
        own = own + self.delta * np.abs(total - inner)
        rest = np.full(len(total), self.lost * 2.0**-40)
        if not isinstance(scale, int):
            # In every term what the contract allows to underflow may itself have been lost in scaling.
            own, rest = own + self._live * LOST, rest + self._live * (LOWEST * (len(self.x.values) + 1))
        stack = times(stacked(ends) + (SIDE * width + OWN * own), scale) + (SIDE * self.lost + OWN * rest)
        return self._patched(doubtful(rounded(target, stack, self.numerics.saturate)))

    @property
    def _live(self) -> Mask:
        """(n,) columns with a term that is not zero by itself: the others are exactly zero, whatever underflows."""
        r = head(self.found.stack)[0] != 0 if self.found.dead is None else ~self.found.dead
        live: Mask = np.logical_or.reduce((self.x.values != 0) & (self.dy.values != 0) & r[:, None], axis=0)
        return live

    def _terms(self) -> Real:
        """(5, rows, n) stack of |dy h|, over 2^scale."""
        arithmetic, numerics, scale = self.x.squares.arithmetic, self.numerics, self.scale
        step = rounding(self.multiply, numerics, 1)
        roots = self.found.stack if self.found.dead is None else zeroed(self.found.stack, self.found.dead)
        rows = ScaledRows(self.x.values, roots, 0, 0) if isinstance(scale, int) else scaled_rows(self.x.values, roots)
        stack = times((rows.r * arithmetic.own(12))[:, :, None] * np.abs(rows.x), rows.h)
        points = numerics.cast == "llama"
        exact = points and self.x.dtype == self.multiply
        live = np.asarray(self.x.live * (head(roots)[0] != 0)[:, None], dtype=np.float64)
        operations = self.narrowed + (not exact)
        if operations:
            stack = inexact(stack, rounding(self.multiply, numerics, operations), arithmetic, live)
        if points:
            stack = point(stack, self.x.dtype, arithmetic)
        stack = stack * np.abs(times_float(self.dy.values, -scale))
        if not exact:
            step = replace(step, absolute=float(times_float(step.absolute, -scale)))
            stack = inexact(stack, step, arithmetic, np.asarray(live * self.dy.live, dtype=np.float64))
        return point(stack, self.x.dtype, arithmetic) if points else stack

    def _patched(self, enclosure: Enclosure) -> Enclosure:
        nan, infinite, unjudged = self.special
        unsure = np.broadcast_to(bool(self.status.beyond.any()), nan.shape) & ~nan & ~infinite & ~unjudged
        if not (nan | infinite | unjudged | unsure).any():
            return enclosure
        flags = np.where(nan, REQUIRED, FORBIDDEN if enclosure.nan is None else enclosure.nan)
        inner = tuple(np.where(nan | infinite | unsure, np.nan, end) for end in enclosure.inner)
        outer = tuple(np.where(nan | infinite, np.nan, end) for end in enclosure.outer)
        maybe = unsure if enclosure.unsure is None else unsure | (enclosure.unsure & ~(nan | infinite | unjudged))
        return replace(
            enclosure,
            inner=(inner[0], inner[1]),
            outer=(outer[0], outer[1]),
            nan=np.where(unjudged, ALLOWED, flags).astype(np.int8),
            nonfinite=infinite,
            unjudged=unjudged,
            unsure=maybe,
        )

    def bounds(self, target: Format, column: int, rows: Sequence[RowBounds]) -> Bounds:
        """Precise tier: what dw may be in one column, at the current working precision."""
        nan, infinite, unjudged = (bool(mask[column]) for mask in self.special)
        if nan:
            return Bounds(target, mpmath.nan, mpmath.nan, mpmath.nan, None, REQUIRED)
        if unjudged or any(row.zero or row.pole for row in rows):
            return Bounds(target, mpf(0), -mpmath.inf, mpmath.inf, None, ALLOWED)
        if infinite:
            return Bounds(target, mpf(0), mpmath.inf, -mpmath.inf, None, nonfinite=True)
        centre, low, high, size = mpf(0), mpf(0), mpf(0), mpf(0)
        points = self.numerics.cast == "llama"
        exact = points and self.x.dtype == self.multiply
        operations = self.narrowed + (not exact)
        first = rounding(self.multiply, self.numerics, operations) if operations else None
        second = None if exact else rounding(self.multiply, self.numerics, 1)
        for i, row in enumerate(rows):
            x, dy = float(self.x.values[i, column]), float(self.dy.values[i, column])
            if row.dead or not x or not dy:
                continue
            term = row.root.times(abs(mpf(x)))
            term = term if first is None else term.inexact(first)
            term = (term.point(self.x.dtype) if points else term).times(abs(mpf(dy)))
            term = term if second is None else term.inexact(second)
            term = term.point(self.x.dtype) if points else term
            size += term.high
            sign = 1 if (x > 0) == (dy > 0) else -1
            centre += sign * term.centre
            low += term.low if sign > 0 else -term.high
            high += term.high if sign > 0 else -term.low
        width = mpf(self.delta) * size + mpf(self.lost)
        return Bounds(target, centre, low - width, high + width, None, saturate=self.numerics.saturate)
