"""Fast tier: steps that take a stack of magnitudes (see `oracles.rows`) from one declared operation to the next, and
which of them lie between a row's root and an output.

Their counterparts in the precise tier are the methods of `oracles.precise.Interval`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oracles.budget import Rounding, RowBudget, narrowing, rounding
from oracles.doubledouble import F64, Real, head, not_negative
from oracles.dtypes import Format, form
from oracles.numerics import Numerics
from oracles.rounding import round_to
from oracles.rows import LOW_INNER, LOW_OUTER, SIDE, Arithmetic

Live = F64 | float
"""The value is 1.0 where a magnitude is not zero; zero times anything stays exactly zero."""


def inexact(stack: Real, rounding: Rounding, arithmetic: Arithmetic, live: Live) -> Real:
    """Widen a stack (5, rows, columns) by operations that round in places which the contract leaves open."""
    widened = stack * arithmetic.factor(rounding.relative, rounding.relative)[:, :, None]
    return not_negative(widened + (SIDE * rounding.absolute)[:, :, None] * live)


def flushed(stack: Real, form: Format) -> Real:
    """Let results below the normal range of `form` also be zero."""
    small = head(stack)[LOW_OUTER : LOW_INNER + 1] < form.tiny
    if not small.any():
        return stack
    keep = np.ones(stack.shape)
    keep[LOW_OUTER : LOW_INNER + 1] = ~small
    return stack * keep


def point(stack: Real, form: Format, arithmetic: Arithmetic) -> Real:
    """A declared rounding point: everything is rounded to nearest even in `form`."""
    return arithmetic.lift(round_to(stack, form))


@dataclass(frozen=True)
class Passage:
    """How one output follows from the rows and their exact roots, under a settled contract."""

    target: Format
    """The output's own format: rounding to it is the last step."""
    per_row: bool
    """True of the roots themselves."""
    weighted: bool = False
    """Whether the product with the root is multiplied with the weight."""
    point: Format | None = None
    """The declared rounding of the product with the root, before the weight. Then only what equals the exact values,
    rounded as declared, is certainly right."""
    steps: tuple[Rounding, ...] = ()
    """What the contract leaves open on the way, as `oracles.steps.inexact` takes it."""

    @property
    def way(self) -> object:
        """Equal for outputs that are compared in the same way."""
        return self.point if self.point is None else (self.point, self.target)

    def factors(self, budget: RowBudget) -> tuple[float, float]:
        """What the root's own error and the steps make of an exact value at most, downwards and upwards."""
        down, up = 1.0 - budget.root, 1.0 + budget.root
        for step in self.steps:
            down, up = down * (1.0 - step.relative), up * (1.0 + step.relative)
        return down, up


def operations(numerics: Numerics, target: Format, dtype: Format, weighted: bool) -> int:
    """Roundings of x * rstd in places that the contract leaves open, before a weight or a declared rounding."""
    exact = ends_here(numerics, target, dtype, weighted) or (numerics.cast == "llama" and dtype == multiplied(numerics))
    return narrowing(numerics) + (not exact)


def ends_here(numerics: Numerics, target: Format, dtype: Format, weighted: bool) -> bool:
    """Whether x * rstd is the output, rounded once: no weight follows, and no declared rounding comes before it."""
    rounded_before = numerics.cast == "llama" and dtype.name != numerics.multiply
    return not weighted and target.name == numerics.multiply and not rounded_before


@lru_cache(maxsize=4096)
def passage(per_row: bool, numerics: Numerics, target: Format, dtype: Format, weighted: bool) -> Passage | None:
    """How y or rstd (`per_row`) follows from rows of `dtype`; None where only the enclosures can tell."""
    if target.name == "f64":
        return None
    if per_row:
        return Passage(target, per_row=True)
    if numerics.cast == "llama" and not ends_here(numerics, target, dtype, weighted):
        return None if numerics.saturate else Passage(target, False, weighted, point=dtype)
    multiply, steps = multiplied(numerics), list[Rounding]()
    if count := operations(numerics, target, dtype, weighted):
        steps.append(rounding(multiply, numerics, count))
    if weighted and target != multiply:
        steps.append(rounding(multiply, numerics, 1))
    return Passage(target, False, weighted, steps=tuple(steps))


def multiplied(numerics: Numerics) -> Format:
    """The format of the multiplications of a settled contract."""
    assert numerics.multiply is not None, "the contract is settled"
    return form(numerics.multiply)
