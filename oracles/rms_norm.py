"""Op `rms_norm`: y = x * rstd * (offset + weight), rstd = 1 / sqrt(mean(x^2) + eps), along one axis.

Inputs: `x`, any shape; `weight`, optional, one element per column, or several rows of them, see `Weight`. Outputs: `y`
of the shape of `x`; `rstd`, optional, one element per row. Params: `eps` (default 0), `axis` (default -1), `offset`
(default 0, used with a weight only).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import RowBudget, Term, narrowing, rounding, row_budget
from oracles.doubledouble import Real
from oracles.dtypes import Format, form
from oracles.enclosure import ALLOWED, FORBIDDEN, REQUIRED, Enclosure, rounded
from oracles.lanes import Screened
from oracles.numerics import Numerics, alike
from oracles.operand import RowOperand, Weight, sign_bit
from oracles.precise import Bounds, Interval
from oracles.problem import Problem, ProblemError
from oracles.rounding import round_to
from oracles.row_facts import row_facts, row_terms
from oracles.rows import Roots, roots
from oracles.screen import (
    Allowance,
    Centre,
    Near,
    Rounded,
    Screen,
    Screens,
    allowance,
    exact_roots,
    reaches,
)
from oracles.special import patched, patched_rows
from oracles.steps import Live, Passage, ends_here, flushed, inexact, multiplied, operations, passage, point


class RmsNorm:
    """One problem of the op. What does not depend on a contract is computed once and shared by all kernels."""

    OUTPUTS: tuple[str, ...] = ("y", "rstd")

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.axis = problem.axis
        self.dtype = problem.form_of("x")
        self.x = RowOperand.of(problem, "x")
        self.rows: int = self.x.values.shape[0]
        self.length: int = self.x.values.shape[1]
        self.weight = Weight.of(problem, self.length) if "weight" in problem.inputs else None
        self._centres: dict[object, Centre] = {}
        for output in problem.outputs:
            if output not in self.OUTPUTS:
                raise ProblemError(f"outputs.{output}: {problem.op} has no such output")

    @property
    def screened(self) -> Screened:
        """The same for batches."""
        return self

    def shape(self, output: str) -> tuple[int, ...]:
        """Shape of an output as the kernel returns it."""
        shape = self.problem.input("x").shape
        return shape if self.has_axis(output) else shape[: self.axis] + shape[self.axis + 1 :]

    def cost(self, output: str) -> int:
        """Elements that the precise tier reads to judge one element of `output`."""
        return self.length

    def has_axis(self, output: str) -> bool:
        """Whether the output has the normalised axis."""
        return output != "rstd"

    def operand(self, numerics: Numerics) -> RowOperand:
        """What is normalised under a (settled) contract."""
        return self.x

    def budget(self, numerics: Numerics, structured: bool) -> RowBudget:
        """Budget of the row sums under a settled contract."""
        return row_budget(numerics, self.length, self.problem.eps, self.dtype.name, structured)

    def enclose(self, numerics: Numerics, structured: bool) -> Mapping[str, Enclosure]:
        """Fast tier: enclosures of all outputs."""
        numerics = numerics.settled(self.dtype.name)
        found = roots(self.operand(numerics).squares, self.budget(numerics, structured))
        return {name: self._enclose(name, found, numerics) for name in self.problem.outputs}

    def screens(self, contracts: Sequence[Numerics], structured: bool) -> Mapping[Numerics, Screens]:
        """Screens of the outputs that have one: unless rows are so special that the enclosures must tell."""
        found: dict[Numerics, Screens] = {}
        for group in alike(tuple(contracts), self.dtype.name):
            screens = self._screens(list(group.values()), structured)
            found.update({numerics: (place, screens) for place, numerics in enumerate(group)})
        return found

    def _screens(self, settled: Sequence[Numerics], structured: bool) -> Mapping[str, Screen]:
        """For settled contracts that differ in their summation alone."""
        allowed = self.allowed(settled, structured)
        if allowed is None:
            return {}
        found = {name: self._screen(name, settled[0], allowed) for name in self.problem.outputs}
        return {name: screen for name, screen in found.items() if screen is not None}

    def allowed(self, contracts: Sequence[Numerics], structured: bool) -> Allowance | None:
        """What settled contracts allow that differ in their summation alone; None where only enclosures can tell.

        Raises `NumericsError` for a contract that the problem contradicts.
        """
        first = contracts[0]
        squares = self.operand(first).squares
        if first.denormals != "preserve" or not (first.nonfinite == "ieee" or squares.largest < np.inf):
            return None
        budget = self.budget(first, structured)
        return allowance(squares, budget, [budget.of_sum(each.summation, self.length) for each in contracts])

    def passage(self, output: str, numerics: Numerics) -> Passage | Rounded | None:
        """How an output follows from its rows under a settled contract, or its right values where it needs no roots;
        None where only the enclosures can tell."""
        weight = self.weight is not None
        return passage(output == "rstd", numerics, form(self.problem.outputs[output]), self.dtype, weight)

    def _screen(self, output: str, numerics: Numerics, allowed: Allowance) -> Screen | None:
        passage = self.passage(output, numerics)
        if passage is None or isinstance(passage, Rounded):
            return passage
        centre = self._centre(output, numerics, allowed.budget, passage)
        if passage.point is not None:
            return Rounded(centre.rounded, centre.negative)
        # Otherwise operations that underflow count.
        near = all(reaches(centre.smallest, step.absolute) for step in passage.steps)
        return Near(centre, replace(allowed, passage=passage)) if near else None

    def _centre(self, output: str, numerics: Numerics, budget: RowBudget, passage: Passage) -> Centre:
        """The exact values of y or rstd, with declared roundings in between; the same for all contracts that hold n,
        eps and the weight alike."""
        operand, weight = self.operand(numerics), self.weight if passage.weighted else None
        formed = None if weight is None else weight.formed_in(numerics)
        key = output, id(operand), budget.count, budget.eps, budget.overflow, formed, passage.point
        if key not in self._centres:
            roots = exact_roots(operand.squares, budget)
            values, negative = roots, np.zeros(self.rows, bool)
            smallest = float(np.min(roots, where=roots > 0, initial=np.inf))
            if output == "y":
                values, negative = roots[:, None] * operand.squares.magnitudes, operand.negative
                smallest *= operand.squares.smallest
            if passage.point is not None:
                values = round_to(values, passage.point)
            if weight is not None:
                magnitudes, sign = weight.at(numerics)
                values, negative = values * magnitudes, negative ^ sign
                smallest *= float(np.min(magnitudes, where=magnitudes > 0, initial=1.0))
            self._centres[key] = Centre(values, negative, smallest, passage.target)
        return self._centres[key]

    def _enclose(self, output: str, found: Roots, numerics: Numerics) -> Enclosure:
        target = form(self.problem.outputs[output])
        if output == "rstd":
            return self._enclose_rstd(found, numerics, target)
        operand = self.operand(numerics)
        squares, live = operand.squares, operand.live
        stack = (found.stack * squares.arithmetic.own(12))[:, :, None] * squares.magnitudes
        negative = operand.negative
        stack = self._normalised(stack, numerics, target, live, operand)
        if self.weight is not None:
            magnitudes, sign = self.weight.at(numerics)
            stack = stack * magnitudes
            if target.name != numerics.multiply:
                live = np.asarray(live * (magnitudes > 0), dtype=np.float64)
                stack = inexact(stack, rounding(multiplied(numerics), numerics, 1), squares.arithmetic, live)
            negative = negative ^ sign
        if numerics.denormals == "flush":
            stack = flushed(stack, form_below(target, multiplied(numerics)))
        enclosure = rounded(target, stack, numerics.saturate, negative)
        weight, broken = (None, None) if self.weight is None else (magnitudes, self.weight.broken)
        if found.dead is None and broken is None and numerics.nonfinite == "ieee":
            return enclosure
        return patched(enclosure, found, operand.values, weight, broken, numerics.nonfinite == "unspecified")

    def _normalised(self, stack: Real, numerics: Numerics, target: Format, live: Live, operand: RowOperand) -> Real:
        """x * rstd, up to the multiplication with the weight (which may also be the end)."""
        multiply = multiplied(numerics)
        if numerics.denormals == "flush":
            stack = flushed(stack, multiply)
        rounds_first = numerics.cast == "llama"
        last = self._ends_here(numerics, target)
        operations = self._operations(numerics, target)
        if operations:
            stack = inexact(stack, rounding(multiply, numerics, operations), operand.squares.arithmetic, live)
        return point(stack, self.dtype, operand.squares.arithmetic) if rounds_first and not last else stack

    def _operations(self, numerics: Numerics, target: Format) -> int:
        return operations(numerics, target, self.dtype, self.weight is not None)

    def _ends_here(self, numerics: Numerics, target: Format) -> bool:
        return ends_here(numerics, target, self.dtype, self.weight is not None)

    def _enclose_rstd(self, found: Roots, numerics: Numerics, target: Format) -> Enclosure:
        stack = found.stack * self.x.squares.arithmetic.own(12)
        if numerics.denormals == "flush":
            stack = flushed(stack, target)
        enclosure = rounded(target, stack, negative=np.zeros(self.rows, bool))
        if found.dead is None:
            return enclosure
        return patched_rows(enclosure, found, numerics.nonfinite == "unspecified")

    def bounds(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> Bounds:
        """Precise tier: what element `index` (canonical) of `output` may be, at the current working precision."""
        numerics = numerics.settled(self.dtype.name)
        target = form(self.problem.outputs[output])
        operand = self.operand(numerics)
        row = operand.row_bounds(index[0], self.budget(numerics, structured))
        free = numerics.nonfinite == "unspecified"
        if free and (row.nan or row.dead or row.zero or row.pole):
            return anything(target)
        if output == "rstd":
            root = row.root.flushed(target) if numerics.denormals == "flush" else row.root
            if row.dead:
                root = Interval(mpf(0), mpf(0), mpf(0))
            nan = REQUIRED if row.nan else FORBIDDEN
            return Bounds(target, root.centre, root.low, root.high, False, nan, row.zero)
        x = float(operand.values[index])
        weight = 1.0 if self.weight is None else self.weight.value(index, numerics)
        negative = sign_bit(x) != sign_bit(weight)
        if row.nan or mpmath.isinf(x) or mpmath.isnan(weight):
            return anything(target) if free else Bounds(target, mpmath.nan, mpmath.nan, mpmath.nan, negative, REQUIRED)
        if row.dead or not x or not weight:
            nan = REQUIRED if mpmath.isinf(weight) else ALLOWED if row.pole else FORBIDDEN
            return Bounds(target, mpf(0), mpf(0), mpf(0), negative, nan)
        value = self._element(row.root.times(abs(mpf(x))), abs(mpf(weight)), numerics, target)
        nan = ALLOWED if mpmath.isinf(weight) and (row.zero or not value.low) else FORBIDDEN
        return Bounds(target, value.centre, value.low, value.high, negative, nan, row.zero, numerics.saturate)

    def _element(self, value: Interval, weight: mpf, numerics: Numerics, target: Format) -> Interval:
        multiply = multiplied(numerics)
        flush = numerics.denormals == "flush"
        step = rounding(multiply, numerics, 1)
        if flush:
            value = value.flushed(multiply)
        last, rounds_first = self._ends_here(numerics, target), numerics.cast == "llama"
        operations = self._operations(numerics, target)
        if operations:
            value = value.inexact(rounding(multiply, numerics, operations))
        if last:
            return value
        if rounds_first:
            value = value.point(self.dtype)
        if self.weight is not None:
            value = value.times(weight) if mpmath.isfinite(weight) else infinite(value)
            if target != multiply:
                value = value.inexact(step)
        return value.flushed(form_below(target, multiply)) if flush else value

    def terms(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> tuple[Term, ...]:
        """The budget of one element to first order, in units of the output."""
        numerics = numerics.settled(self.dtype.name)
        bounds = self.bounds(output, index, numerics, structured)
        row = self.operand(numerics).row_bounds(index[0], self.budget(numerics, structured))
        terms = row_terms(output, row, self.budget(numerics, structured), bounds.centre)
        casts = self.problem.outputs[output] != numerics.multiply
        operations = (self.weight is not None) + casts + narrowing(numerics)
        if terms and output == "y" and operations:
            u = multiplied(numerics).u
            text = f"|y| {operations}u, u = {u:g}"
            terms += (Term("multiplications", text, float(abs(bounds.centre) * operations * u)),)
        return terms

    def facts(
        self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool
    ) -> tuple[tuple[str, str], ...]:
        """Facts about the row of one element, ready to print."""
        numerics = numerics.settled(self.dtype.name)
        budget = self.budget(numerics, structured)
        return row_facts(self.operand(numerics).row_bounds(index[0], budget), budget, self.length, self.problem.eps)


def form_below(target: Format, computed: Format) -> Format:
    """The format whose subnormals a flushing kernel loses in the last step: the one with the larger smallest normal."""
    return max(target, computed, key=lambda each: each.emin)


def anything(target: Format) -> Bounds:
    """No judgement."""
    return Bounds(target, mpf(0), -mpmath.inf, mpmath.inf, None, ALLOWED)


def infinite(value: Interval) -> Interval:
    """Product with an infinite weight: infinite, or (where `value` may be zero) NaN."""
    low = mpmath.inf if value.low else mpf(0)
    return Interval(mpmath.inf, low, mpmath.inf)
