"""Op `rms_norm`: y = x * rstd, rstd = 1 / sqrt(mean(x^2) + eps), along one axis.

Inputs: `x`, any shape. Outputs: `y` of the shape of `x`; `rstd`, optional, one element per row.
Params: `eps` (default 0), `axis` (default -1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import CONFIDENCE, RowBudget, Term, row_budget
from oracles.dtypes import form
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED, Enclosure, Mask, canonical, rounded
from oracles.explanation import digits
from oracles.numerics import Numerics
from oracles.precise import Bounds, RowBounds, count_underflows, row_bounds, sum_of_squares
from oracles.problem import Problem, ProblemError
from oracles.rounding import F64
from oracles.rows import OWN, ULP, Roots, Squares, roots


class RmsNorm:
    """One problem of the op. What does not depend on a contract is computed once and shared by all kernels."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.axis = problem.axis
        x = canonical(problem.input("x"), self.axis)
        self.rows, self.length = x.shape
        self.x: F64 = x.astype(np.float64)
        self.squares = Squares(self.x)
        self._totals: dict[int, mpf] = {}
        unknown = set(problem.outputs) - {"y", "rstd"}
        if unknown:
            raise ProblemError(f"outputs.{min(unknown)}: rms_norm has no such output")

    def shape(self, output: str) -> tuple[int, ...]:
        """Shape of an output as the kernel returns it."""
        shape = self.problem.input("x").shape
        return shape if output == "y" else shape[: self.axis] + shape[self.axis + 1 :]

    def has_axis(self, output: str) -> bool:
        """Whether the output has the normalised axis."""
        return output == "y"

    @cached_property
    def negative(self) -> Mask:
        """(rows, n) sign bits of y: those of x, because rstd is never negative."""
        return np.signbit(self.x)

    def budget(self, numerics: Numerics, structured: bool) -> RowBudget:
        """Budget of the row sums."""
        return row_budget(numerics, self.length, self.problem.eps, structured)

    def enclose(self, numerics: Numerics, structured: bool) -> Mapping[str, Enclosure]:
        """Fast tier: enclosures of all outputs."""
        found = roots(self.squares, self.budget(numerics, structured), numerics.sum_range == "exact")
        encloses = {"y": self._enclose_y, "rstd": self._enclose_rstd}
        return {name: encloses[name](found, numerics) for name in self.problem.outputs}

    def _enclose_y(self, found: Roots, numerics: Numerics) -> Enclosure:
        target = form(self.problem.outputs["y"])
        factor = found.stack * (1 + OWN * (4 * ULP))
        stack = factor[:, :, None] * self.squares.magnitudes
        if target.name != numerics.accumulate:
            stack = _inexact_product(stack, numerics)
        enclosure = replace(rounded(target, stack), negative=self.negative)
        return enclosure if found.dead is None else self._special_y(enclosure, found)

    def _special_y(self, enclosure: Enclosure, found: Roots) -> Enclosure:
        assert found.dead is not None and found.nan is not None and found.pole is not None
        assert found.zero is not None and found.unsure is not None
        infinite = np.isinf(self.x)
        nan = np.zeros(self.x.shape, np.int8)
        nan[found.nan] = REQUIRED
        nan[infinite] = REQUIRED
        nan[found.pole[:, None] & (self.x == 0)] = ALLOWED
        fixed = np.zeros(self.x.shape, bool) | found.dead[:, None]
        fixed |= found.pole[:, None] & (self.x == 0)
        unsure = np.broadcast_to(found.unsure[:, None], self.x.shape)
        zero = np.broadcast_to(found.zero[:, None], self.x.shape)
        return _patch(enclosure, fixed, unsure, nan, zero)

    def _enclose_rstd(self, found: Roots, numerics: Numerics) -> Enclosure:
        target = form(self.problem.outputs["rstd"])
        stack = found.stack * (1 + OWN * (4 * ULP))
        enclosure = replace(rounded(target, stack), negative=np.zeros(self.rows, bool))
        if found.dead is None:
            return enclosure
        assert found.nan is not None and found.zero is not None and found.unsure is not None
        nan = np.where(found.nan, REQUIRED, FORBIDDEN).astype(np.int8)
        return _patch(enclosure, found.dead, found.unsure, nan, found.zero)

    def total(self, row: int) -> mpf:
        """Exact sum of squares of one row."""
        if row not in self._totals:
            self._totals[row] = sum_of_squares(self.x[row].tolist())
        return self._totals[row]

    def row(self, row: int, numerics: Numerics, structured: bool) -> RowBounds:
        """Precise tier: facts of one row at the current working precision."""
        budget = self.budget(numerics, structured)
        underflowing = count_underflows(self.x[row].tolist(), budget.form)
        return row_bounds(self.total(row), underflowing, budget, numerics.sum_range == "exact")

    def bounds(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> Bounds:
        """Precise tier: what element `index` (canonical) of `output` may be, at the current working precision."""
        row = self.row(index[0], numerics, structured)
        target = form(self.problem.outputs[output])
        if output == "rstd":
            if row.dead:
                return Bounds(target, mpf(0), mpf(0), mpf(0), False)
            nan = REQUIRED if row.nan else FORBIDDEN
            return Bounds(target, row.centre, row.low, row.high, False, nan, row.zero)
        x = mpf(float(self.x[index]))
        negative = bool(np.signbit(self.x[index]))
        if row.nan or mpmath.isinf(x):
            return Bounds(target, mpmath.nan, mpmath.nan, mpmath.nan, negative, REQUIRED)
        if row.dead or not x:
            nan = ALLOWED if row.pole else FORBIDDEN
            return Bounds(target, mpf(0), mpf(0), mpf(0), negative, nan)
        centre, low, high = abs(x) * row.centre, abs(x) * row.low, abs(x) * row.high
        if target.name != numerics.accumulate:
            computed = form(numerics.accumulate)
            u, half_eta = mpf(computed.u), mpmath.ldexp(1, computed.emin - computed.precision)
            low, high = max(low * (1 - u) - half_eta, mpf(0)), high * (1 + u) + half_eta
        return Bounds(target, centre, low, high, negative, zero=row.zero)

    def terms(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> tuple[Term, ...]:
        """The budget of one element to first order, in units of the output."""
        row = self.row(index[0], numerics, structured)
        budget = self.budget(numerics, structured)
        centre = abs(self.bounds(output, index, numerics, structured).centre)
        if not mpmath.isfinite(centre) or row.dead or row.pole:
            return ()
        mean = row.total / mpf(budget.count)
        share = mean / (mean + mpf(budget.eps)) if mean else mpf(0)
        # To first order the root halves relative errors of its argument, and of those of the mean only its share counts.
        weight = {"sum": share / 2, "mean": share / 2, "add eps": mpf(1) / 2, "rsqrt": mpf(1)}
        prefix = {"sum": "share/2 * ", "mean": "share/2 * ", "add eps": "1/2 * ", "rsqrt": ""}
        terms = [
            Term(term.name, f"|{output}| * {prefix[term.name]}({term.formula})", float(centre * weight[term.name] * term.value))
            for term in budget.terms
        ]
        lost = row.underflowing * mpf(budget.form.half_eta) / budget.count + mpf(budget.form.half_eta)
        terms.append(
            Term(
                "underflow",
                f"|{output}| / (2 (mean + eps)) * half_eta (k/n + 1), k = {row.underflowing}",
                float(centre * lost / (mean + mpf(budget.eps)) / 2) if mean else 0.0,
            )
        )
        if output == "y" and self.problem.outputs["y"] != numerics.accumulate:
            terms.append(Term("product", f"|y| u({numerics.accumulate})", float(centre * form(numerics.accumulate).u)))
        return tuple(terms)

    def facts(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> tuple[tuple[str, str], ...]:
        """Facts about the row of one element, ready to print."""
        row = self.row(index[0], numerics, structured)
        budget = self.budget(numerics, structured)
        overflow = "must overflow" if row.dead else "may overflow" if row.zero else "no"
        return (
            ("row length n", str(self.length)),
            ("mean square, exact", digits(row.total / self.length)),
            ("eps", f"{budget.eps!r} (given {self.problem.eps!r})"),
            ("rstd, exact", digits(row.centre)),
            ("chain h", str(budget.chain)),
            ("budget of the sum", f"statistical, lambda = {CONFIDENCE:g}" if budget.statistical else "worst case"),
            ("accumulator", f"{budget.form.name}, u = 2^-{budget.form.precision}"),
            ("sum overflows", overflow),
            ("squares that underflow", str(row.underflowing)),
        )


def _inexact_product(stack: F64, numerics: Numerics) -> F64:
    """The product rounded in the accumulator's dtype before the last cast: one relative error, or an underflow."""
    computed = form(numerics.accumulate)
    down, up = 1 - computed.u, 1 + computed.u
    factor = np.array([1.0, down, down, up, up])[:, None, None]
    shift = np.array([0.0, -1.0, -1.0, 1.0, 1.0])[:, None, None] * computed.half_eta
    return np.maximum(stack * factor + np.where(stack > 0, shift, 0.0), 0.0)


def _patch(enclosure: Enclosure, zero: Mask, unsure: Mask, nan: np.ndarray, maybe: Mask) -> Enclosure:
    """Elements that are certainly 0; elements of which nothing is certain; special values."""
    low, high = (np.where(zero, 0.0, end) for end in enclosure.inner)
    return replace(
        enclosure,
        centre=np.where(zero, 0.0, enclosure.centre),
        below=np.where(zero, 0.0, enclosure.below),
        above=np.where(zero, 0.0, enclosure.above),
        inner=(np.where(unsure, np.nan, low), np.where(unsure, np.nan, high)),
        outer=(np.where(zero, 0.0, enclosure.outer[0]), np.where(zero, 0.0, enclosure.outer[1])),
        nan=nan,
        zero=maybe,
        unsure=unsure,
    )
