"""dx = r (m - h mean(h m)) [+ dsum] with h = x r, m = dy (offset + weight): both tiers. See `GradientBudget`.

The tiers share the numbers of the budget, the formula for underflow, and the decision which rows are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import GradientBudget, lost_to_underflow
from oracles.doubledouble import F64, Real, exponents, head
from oracles.dtypes import Format, form
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED, Enclosure, Mask, any_of, doubtful, rounded
from oracles.numerics import Numerics
from oracles.operand import RowOperand, Weight
from oracles.precise import EXACT, Bounds, Interval, RowBounds
from oracles.rows import DOUBLE_DOUBLE, OWN, SIDE, Roots
from oracles.scaling import LOST, LOWEST, ScaledRows, Shift, scaled_rows, times, times_float

SAFE = (2.0**-250, 2.0**250)
"""The magnitudes for which products of a few numbers stay within the range of double-double arithmetic."""

SLACK = 2.0**-40
"""The relative error of the fast tier's budgets, which are calculated in float64."""


@dataclass(frozen=True)
class SpecialRows:
    """(rows,) which rows are special, and in which way."""

    nan: Mask
    """All of the row is NaN."""
    infinite: Mask
    """All of the row is NaN or infinite, because an input is infinite."""
    unjudged: Mask
    beyond: Mask
    """The row is beyond the fast tier's range."""
    unsure: Mask
    """The row is beyond that range and none of the above: not NaN, infinite or unjudged."""


@dataclass(frozen=True)
class Gradient:
    """dx of one problem."""

    x: RowOperand
    dy: RowOperand
    weight: Weight | None
    extra: RowOperand | None
    """The gradient of the residual sum, added at the end."""
    _sums: dict[tuple[int, str], tuple[mpf, ...]] = field(default_factory=dict, repr=False, compare=False)
    _facts: dict[tuple[object, ...], tuple[Mapping[str, mpf], mpf, mpf]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def scale(self, numerics: Numerics) -> F64 | float:
        """offset + weight, (n,), or 1."""
        return 1.0 if self.weight is None else self.weight.signed(numerics)

    def status(self, numerics: Numerics, found: Roots) -> SpecialRows:
        """What is special about rows under a settled contract, with rstd as `found`."""
        with np.errstate(all="ignore"):
            r = head(found.stack)[0]
            if found.dead is not None:  # rstd is 0; double-double arithmetic made NaN of the sum that overflowed
                r = np.where(found.dead, 0.0, r)
            m = self.dy.values * self.scale(numerics)
            rows = np.zeros(len(r), bool)
            finite = np.isfinite(self.x.values) & np.isfinite(self.dy.values) & np.isfinite(m)
            nan = np.isnan(r) | any_of(np.isnan(self.x.values) | np.isnan(m))
            infinite = ~nan & any_of(~finite)
            special = [mask for mask in (found.zero, found.dead, found.pole) if mask is not None]
            unjudged = np.logical_or.reduce([rows, ~(np.isfinite(r) & (r > 0)), *special]) & ~nan & ~infinite
            unjudged |= ~nan & ~infinite & ~(self._largest(r, m, numerics) < form(numerics.multiply or "f32").max / 4)
            unsure = rows if found.unsure is None else found.unsure
            if self.x.squares.arithmetic is DOUBLE_DOUBLE:
                unsure = unsure | scaled_rows(self.x.values, found.stack).unsafe
                if numerics.cast == "llama":  # declared rounding points are of numbers as they are
                    unsure = unsure | any_of(_unsafe(self.x.values) | _unsafe(m)) | _unsafe(r)
        return SpecialRows(nan, infinite, unjudged, unsure, unsure & ~nan & ~infinite & ~unjudged)

    def _largest(self, r: F64, m: F64, numerics: Numerics) -> F64:
        """(rows,) bound of every intermediate result, in float64."""
        x, size = np.abs(self.x.values), np.abs(m)
        products = np.add.reduce(x * size, axis=1)
        top_x, top_m = (np.maximum.reduce(part, axis=1, initial=0.0) for part in (x, size))
        top_h = r * top_x
        bounds = [top_m, r * top_m, top_h, r * products, top_h * r * products, r * top_h * r * products]
        if numerics.dx == "rstd3":
            bounds += [products, r * r * r, r * r * r * products, r * r * r * products * top_x]
        return np.maximum.reduce(bounds) if len(r) else r

    def enclose(
        self, target: Format, numerics: Numerics, found: Roots, status: SpecialRows, budget: GradientBudget
    ) -> Enclosure:
        """Fast tier: (rows, n) enclosure of dx."""
        arithmetic = self.x.squares.arithmetic
        n = max(self.x.values.shape[1], 1)
        rows, (m, of_m) = scaled_rows(self.x.values, found.stack), self._scaled_m(numerics)
        r = rows.r[0][:, None]
        h = r * rows.x
        products = h * m
        mean = (products.sum(1) / float(n))[:, None]
        centre = r * (m - times(h * mean, 2 * rows.h))
        size = np.add.reduce(np.abs(head(products)), axis=1, keepdims=True) / n
        first = np.abs(head(r) * head(m))
        second = times_float(np.abs(head(r) * head(h)) * size, 2 * rows.h)
        own = arithmetic.ulp * (n + 60) * (first + second)
        back = rows.root + of_m
        lost = lost_to_underflow(budget, numerics.dx == "rstd3", self._sizes(rows, h, m, of_m, size))
        widths = [
            first * np.expm1(2 * np.log1p(rho) + budget.first * np.log1p(budget.u))
            + second * np.expm1(3 * np.log1p(rho) + budget.second * np.log1p(budget.u) + _sums_of(budget))
            for rho in (_deviation(rows.r, 4, 1), _deviation(rows.r, 3, 2))
        ]
        if not isinstance(back, int):
            live = self._live(numerics)
            own = times_float(own + LOST * live, back) + LOWEST * live
            centre = times(centre, back)
        widths = [times_float(width, back) + lost for width in widths]
        if self.extra is not None:
            centre = centre + self.extra.values
            own = own + arithmetic.ulp * 4 * (np.abs(self.extra.values) + np.abs(head(centre)))
            widths = [width * (1 + 2 * budget.u) + 2 * budget.u * np.abs(head(centre)) for width in widths]
        own = own + SLACK * widths[0]
        width = np.stack([np.zeros(widths[0].shape), widths[0], widths[1], widths[1], widths[0]])
        stack = centre + (SIDE[:, :, None] * width + OWN[:, :, None] * own)
        return self._patched(doubtful(rounded(target, stack, numerics.saturate)), status)

    def _live(self, numerics: Numerics) -> Mask:
        """(rows, n) elements that some product takes part in: all others are exactly zero, whatever underflows."""
        m, x = (self.dy.values != 0) & (np.asarray(self.scale(numerics)) != 0), self.x.values != 0
        live: Mask = m | (x & any_of(m & x)[:, None])
        return live

    def _scaled_m(self, numerics: Numerics) -> tuple[Real, Shift]:
        """(rows, n) m over 2^k, and k, (rows, 1)."""
        arithmetic, scale = self.x.squares.arithmetic, self.scale(numerics)
        if arithmetic is not DOUBLE_DOUBLE:
            return self.dy.values * scale, 0
        of_dy, of_scale = exponents(self.dy.values, 1)[:, None], exponents(np.atleast_1d(scale), 0)
        m = arithmetic.lift(np.ldexp(self.dy.values, -of_dy)) * np.ldexp(scale, -of_scale)
        return m, of_dy + of_scale

    def _sizes(self, rows: ScaledRows, h: Real, m: Real, of_m: Shift, size: F64) -> Mapping[str, F64]:
        """What `lost_to_underflow` asks for, no longer scaled; `size` is the mean of |h m|, scaled."""
        n = max(self.x.values.shape[1], 1)
        h_size, m_size = np.abs(times_float(head(h), rows.h)), np.abs(times_float(head(m), of_m))
        return {
            "r": times_float(head(rows.r)[0][:, None], rows.root),
            "x": np.abs(self.x.values),
            "h": h_size,
            "hm": times_float(size, rows.h + of_m),
            "m_mean": np.add.reduce(m_size, axis=1, keepdims=True) / n,
            "h_mean": np.add.reduce(h_size, axis=1, keepdims=True) / n,
        }

    def _patched(self, enclosure: Enclosure, status: SpecialRows) -> Enclosure:
        infinite = np.broadcast_to(status.infinite[:, None], self.x.values.shape)
        nan_rows = np.broadcast_to(status.nan[:, None], self.x.values.shape)
        unjudged, unsure = (np.broadcast_to(mask[:, None], infinite.shape) for mask in (status.unjudged, status.unsure))
        nan = np.where(nan_rows, REQUIRED, FORBIDDEN if enclosure.nan is None else enclosure.nan).astype(np.int8)
        if self.extra is not None:
            infinite = infinite | (~np.isfinite(self.extra.values) & ~nan_rows)
        if not (infinite | nan_rows | unjudged | unsure).any():
            return enclosure
        inner = tuple(np.where(infinite | nan_rows | unsure, np.nan, end) for end in enclosure.inner)
        outer = tuple(np.where(infinite | nan_rows, np.nan, end) for end in enclosure.outer)
        maybe = unsure if enclosure.unsure is None else unsure | (enclosure.unsure & ~unjudged & ~nan_rows & ~infinite)
        return replace(
            enclosure,
            inner=(inner[0], inner[1]),
            outer=(outer[0], outer[1]),
            nan=np.where(unjudged, ALLOWED, nan).astype(np.int8),
            nonfinite=infinite,
            unjudged=unjudged,
            unsure=maybe,
        )

    def bounds(
        self,
        target: Format,
        index: tuple[int, ...],
        numerics: Numerics,
        row: RowBounds,
        status: SpecialRows,
        budget: GradientBudget,
    ) -> Bounds:
        """Precise tier: what element `index` (row, column) of dx may be, at the current working precision."""
        i = index[0]
        extra = mpf(0) if self.extra is None else mpf(float(self.extra.values[index]))
        if status.nan[i]:
            return Bounds(target, mpmath.nan, mpmath.nan, mpmath.nan, None, REQUIRED)
        unjudged = status.unjudged[i] or row.zero or row.dead or row.pole
        if unjudged and not status.infinite[i]:
            return Bounds(target, mpf(0), -mpmath.inf, mpmath.inf, None, ALLOWED)
        if status.infinite[i] or not mpmath.isfinite(extra):
            # An empty interval: only NaN and infinities conform.
            return Bounds(target, mpf(0), mpmath.inf, -mpmath.inf, None, nonfinite=True)
        means, e1, e2 = self._row_facts(i, numerics, row.root, budget)
        r, x, m = row.root.centre, mpf(float(self.x.values[index])), self._m(index, numerics)
        h = x * r
        centre = r * (m - h * means["product"])
        sizes = {**means, "r": r, "x": abs(x), "h": abs(h)}
        width = abs(r * m) * e1 + abs(r * h) * means["hm"] * e2
        width += lost_to_underflow(budget, numerics.dx == "rstd3", sizes)
        if self.extra is not None:
            u = mpf(budget.u)
            centre += extra
            width = width * (1 + 2 * u) + 2 * u * abs(centre)
        return Bounds(target, centre, centre - width, centre + width, None, saturate=numerics.saturate)

    def _row_facts(
        self, row: int, numerics: Numerics, root: Interval, budget: GradientBudget
    ) -> tuple[Mapping[str, mpf], mpf, mpf]:
        """Means over a row, and relative budgets of the two parts of dx, at the current working precision."""
        key = row, numerics, root, budget, mpmath.mp.prec
        if key not in self._facts:
            r, n, u = root.centre, len(self.x.values[row]), mpf(budget.u)
            rho = max(root.high / r - 1, 1 - root.low / r)
            total, absolute_total, m_total, x_total = self._row_sums(row, numerics)
            means = {"product": r * total / n, "hm": r * absolute_total / n, "m_mean": m_total / n}
            e1 = (1 + rho) ** 2 * (1 + u) ** budget.first - 1
            e2 = (1 + rho) ** 3 * (1 + u) ** budget.second * (1 + mpf(budget.sum)) * (1 + mpf(budget.mean)) - 1
            self._facts[key] = {**means, "h_mean": r * x_total / n}, e1, e2
        return self._facts[key]

    def _m(self, index: tuple[int, ...], numerics: Numerics) -> mpf:
        dy = mpf(float(self.dy.values[index]))
        return dy if self.weight is None else dy * mpf(self.weight.value(index, numerics))

    def _row_sums(self, row: int, numerics: Numerics) -> tuple[mpf, ...]:
        """Exact sums over a row of x m, |x m|, |m| and |x|."""
        key = row, "" if self.weight is None else self.weight.formed_in(numerics).name
        if key not in self._sums:
            with mpmath.workprec(EXACT):
                x = [mpf(value) for value in self.x.values[row].tolist()]
                m = [self._m((row, column), numerics) for column in range(len(x))]
                products = [a * b for a, b in zip(x, m, strict=True)]
                self._sums[key] = (
                    mpmath.fsum(products),
                    mpmath.fsum(products, absolute=True),
                    mpmath.fsum(m, absolute=True),
                    mpmath.fsum(x, absolute=True),
                )
        return self._sums[key]


def _deviation(stack: Real, high: int, low: int) -> F64:
    """(rows, 1) largest relative distance of rstd from its centre."""
    up, down = head(stack[high] / stack[0] - 1.0), head(1.0 - stack[low] / stack[0])
    return np.maximum(np.maximum(up, down), 0.0)[:, None]


def _sums_of(budget: GradientBudget) -> float:
    return float(np.log1p(budget.sum) + np.log1p(budget.mean))


def _unsafe(values: F64) -> Mask:
    """Finite numbers whose products may leave the range; what NaN and infinities do is known without arithmetic."""
    size = np.abs(values)
    return ((size > SAFE[1]) & (size < np.inf)) | ((size < SAFE[0]) & (size > 0))
