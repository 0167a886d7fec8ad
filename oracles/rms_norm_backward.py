"""Ops `rms_norm_backward` and `fused_add_rms_norm_backward`: gradients of `rms_norm`, in closed form.

With r = rstd, h = x r, m = dy (offset + weight), along one axis of length n:

    dx = r (m - h mean(h m)) [+ dsum]        dw = sum over rows of dy h

Inputs: `x` and `dy` of one shape; `weight`, optional; `rstd`, optional, one per row: taken as the bits they are,
otherwise formed from x and eps. The fused op normalised the residual sum, which is its `x`, and takes the sum's other
gradient `dsum` (optional). Outputs: `dx`, `dw`; the fused op also `dresidual`, which equals dx. Params as in
`rms_norm`.

Not judged: rows whose rstd may be 0 or infinite, or in which an intermediate result may overflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import (
    CONFIDENCE,
    GradientBudget,
    RowBudget,
    Term,
    are_coarse,
    gradient_budget,
    narrowing,
    row_budget,
)
from oracles.columns import Columns
from oracles.doubledouble import F64
from oracles.dtypes import form
from oracles.enclosure import Enclosure
from oracles.gradient import Gradient
from oracles.numerics import Numerics
from oracles.operand import RowOperand, Weight
from oracles.precise import Bounds, Interval, RowBounds
from oracles.problem import Problem, ProblemError
from oracles.row_facts import row_facts
from oracles.rows import Roots, roots
from oracles.screen import Screens


class RmsNormBackward:
    """One problem of the op. What does not depend on a contract is computed once and shared by all kernels."""

    OUTPUTS: tuple[str, ...] = ("dx", "dw")

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.axis = problem.axis
        self.dtype = problem.form_of("x")
        self.x = RowOperand.of(problem, "x")
        self.dy = RowOperand.of(problem, "dy")
        self.rows: int = self.x.values.shape[0]
        self.length: int = self.x.values.shape[1]
        weight = Weight.of(problem, self.length) if "weight" in problem.inputs else None
        if weight is not None and weight.values.ndim > 1:
            raise ProblemError("inputs.weight: gradients are of a weight of rank 1")
        extra = RowOperand.of(problem, "dsum") if "dsum" in problem.inputs else None
        self.gradient = Gradient(self.x, self.dy, weight, extra)
        # A kernel that adds in float64 strays no further than the fast tier would, if it did so too.
        self.wide_gradient = Gradient(replace(self.x, wide=True), self.dy, weight, extra)
        self.rstd = self._given_rstd()
        self._prepared: dict[tuple[Numerics, bool], Columns] = {}
        for output in problem.outputs:
            if output not in self.OUTPUTS:
                raise ProblemError(f"outputs.{output}: {problem.op} has no such output")

    @property
    def screened(self) -> None:
        """None: gradients cancel, so that what is allowed to them is in no proportion to them."""
        return None

    def _given_rstd(self) -> F64 | None:
        if "rstd" not in self.problem.inputs:
            return None
        array = self.problem.input("rstd")
        shape = self.problem.input("x").shape
        expected = shape[: self.axis] + shape[self.axis + 1 :]
        if array.shape != expected:
            raise ProblemError(f"inputs.rstd: shape {array.shape}, expected {expected}")
        # Rows of no elements are no rows to the tiers, whatever their rstd.
        return array.astype(np.float64).reshape(-1)[: len(self.x.values)]

    def shape(self, output: str) -> tuple[int, ...]:
        """Shape of an output as the kernel returns it."""
        return (self.length,) if output == "dw" else self.problem.input("x").shape

    def cost(self, output: str) -> int:
        """Elements that the precise tier reads to judge one element of `output`."""
        return self.length * (self.rows if output == "dw" else 1)

    def has_axis(self, output: str) -> bool:
        """Whether the output is laid out like x."""
        return output != "dw"

    def budget(self, numerics: Numerics, structured: bool) -> RowBudget:
        """Budget of the sums of squares under a settled contract."""
        return row_budget(numerics, self.length, self.problem.eps, self.dtype.name, structured)

    def gradient_budget(self, numerics: Numerics, structured: bool) -> GradientBudget:
        """Budget of dx under a settled contract."""
        weighted, narrowed = self.gradient.weight is not None, self.narrowing(numerics)
        coarse = are_coarse(self.dtype, self.dy.dtype, form(numerics.accumulate))
        return gradient_budget(numerics, self.length, weighted, narrowed, structured or coarse)

    def narrowing(self, numerics: Numerics) -> int:
        """Roundings of rstd on its way to the multiplications."""
        return narrowing(numerics, None if self.rstd is None else self.problem.form_of("rstd"))

    def gradient_in(self, numerics: Numerics) -> Gradient:
        """dx, in an arithmetic that is exact enough for a settled contract."""
        return self.wide_gradient if numerics.accumulate == "f64" else self.gradient

    def roots(self, numerics: Numerics, structured: bool) -> Roots:
        """Fast tier: rstd of every row."""
        squares = self.gradient_in(numerics).x.squares
        if self.rstd is None:
            return roots(squares, self.budget(numerics, structured), scaled=True)
        return Roots(squares.arithmetic.lift(np.repeat(self.rstd[None], 5, axis=0)))

    def row(self, row: int, numerics: Numerics, structured: bool) -> RowBounds:
        """Precise tier: rstd of one row."""
        if self.rstd is None:
            return self.x.row_bounds(row, self.budget(numerics, structured))
        value = mpf(float(self.rstd[row]))
        nan = bool(mpmath.isnan(value))
        nothing = mpf(0)
        return RowBounds(nothing, 0, nothing, nothing, Interval(value, value, value), False, False, nan, False)

    def screens(self, contracts: Sequence[Numerics], structured: bool) -> Mapping[Numerics, Screens]:
        """None: gradients cancel, so that what is allowed to them is in no proportion to them."""
        return {}

    def enclose(self, numerics: Numerics, structured: bool) -> Mapping[str, Enclosure]:
        """Fast tier: enclosures of all outputs."""
        numerics = numerics.settled(self.dtype.name)
        columns, budget = self._columns(numerics, structured), self.gradient_budget(numerics, structured)
        return {
            name: columns.enclose(form(dtype))
            if name == "dw"
            else self.gradient_in(numerics).enclose(form(dtype), numerics, columns.found, columns.status, budget)
            for name, dtype in self.problem.outputs.items()
        }

    def _columns(self, numerics: Numerics, structured: bool) -> Columns:
        """What both gradients need to know of the rows under a settled contract, made once."""
        key = numerics, structured
        if key not in self._prepared:
            found = self.roots(numerics, structured)
            gradient = self.gradient_in(numerics)
            status = gradient.status(numerics, found)
            self._prepared[key] = Columns(
                gradient.x, self.dy, found, status, numerics, self.narrowing(numerics), structured
            )
        return self._prepared[key]

    def bounds(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> Bounds:
        """Precise tier: what element `index` (canonical) of `output` may be, at the current working precision."""
        numerics = numerics.settled(self.dtype.name)
        target = form(self.problem.outputs[output])
        columns = self._columns(numerics, structured)
        if output == "dw":
            rows = [self.row(i, numerics, structured) for i in range(self.rows)]
            return columns.bounds(target, index[0], rows)
        row, budget = self.row(index[0], numerics, structured), self.gradient_budget(numerics, structured)
        return self.gradient_in(numerics).bounds(target, index, numerics, row, columns.status, budget)

    def terms(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> tuple[Term, ...]:
        """The budget of one element, in units of the output."""
        bounds = self.bounds(output, index, numerics, structured)
        if not mpmath.isfinite(bounds.low) or not mpmath.isfinite(bounds.high):
            return ()
        formula = (
            "sum |dy h| ((1 + rho)(1 + u)^2 (1 + sum) - 1)"
            if output == "dw"
            else "|r m| e1 + |r h| mean|h m| e2, e1 = (1 + rho)^2 (1 + u)^first - 1, "
            "e2 = (1 + rho)^3 (1 + u)^second (1 + sum)(1 + mean) - 1"
        )
        return (Term("condition", formula, float((bounds.high - bounds.low) / 2)),)

    def facts(
        self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool
    ) -> tuple[tuple[str, str], ...]:
        """Facts about one element, ready to print."""
        numerics = numerics.settled(self.dtype.name)
        if output == "dw":
            chain = numerics.dw_summation.chain(self.rows) + 1
            return (("rows", str(self.rows)), ("chain h over rows", str(chain)), ("summed in", numerics.dw_accumulate))
        budget = self.gradient_budget(numerics, structured)
        kind = f"statistical, lambda = {CONFIDENCE:g}" if budget.statistical else "worst case"
        facts: tuple[tuple[str, str], ...] = (
            ("chain h", str(budget.chain)),
            ("budget of the sum", kind),
            ("e1: first", str(budget.first)),
            ("e2: second", str(budget.second)),
        )
        if self.rstd is not None:
            return (*facts, ("rstd", f"{float(self.rstd[index[0]])!r}, given"))
        row = self.row(index[0], numerics, structured)
        return facts + row_facts(row, self.budget(numerics, structured), self.length, self.problem.eps)


class FusedAddRmsNormBackward(RmsNormBackward):
    """The same of the residual sum, with the sum's own gradient added; dresidual is dx."""

    OUTPUTS = ("dx", "dresidual", "dw")
