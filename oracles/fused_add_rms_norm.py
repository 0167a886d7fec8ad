"""Op `fused_add_rms_norm`: sum = x + residual, then `rms_norm` of the sum.

Inputs: `x` and `residual` of one shape; `weight`, optional. Outputs: `y`, `sum` of that shape; `rstd`, optional.
Params as in `rms_norm`. The contract says whether the sum is rounded to its output's dtype before it is normalised.

The addition is one operation, correctly rounded in the dtype of the multiplications, so the sum has no budget at all.
"""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import RowBudget, Term
from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.enclosure import FORBIDDEN, REQUIRED, Enclosure, rounded
from oracles.numerics import Numerics
from oracles.operand import RowOperand, sign_bit
from oracles.precise import Bounds, add_exactly
from oracles.problem import Problem
from oracles.rms_norm import RmsNorm
from oracles.rounding import add_rounded, round_precise, round_to
from oracles.rows import Roots
from oracles.screen import Rounded
from oracles.steps import Passage


class FusedAddRmsNorm(RmsNorm):
    """One problem of the op. Sums are made once for each dtype that a contract adds in and rounds to."""

    OUTPUTS = ("y", "sum", "rstd")

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.residual = RowOperand.of(problem, "residual")
        self.target = form(problem.outputs.get("sum", self.dtype.name))
        self._operands: dict[tuple[str, bool], RowOperand] = {}
        self._right: dict[str, Rounded] = {}

    def operand(self, numerics: Numerics) -> RowOperand:
        """The sum, as it is normalised under a settled contract."""
        added = _added(numerics)
        key = added.name, numerics.residual == "rounded"
        if key not in self._operands:
            values = self._sums(added)
            if key[1]:
                values = round_to(values, self.target)
            self._operands[key] = RowOperand(values, self.target if key[1] else added)
        return self._operands[key]

    def budget(self, numerics: Numerics, structured: bool) -> RowBudget:
        """Budget of the row sums under a settled contract: the worst case where any part of the sum is coarse.

        Where one of the addends is zero or small, the sum is as coarse as the other.
        """
        held = self.target if numerics.residual == "rounded" else _added(numerics)
        finest = min(each.precision for each in (held, self.dtype, self.residual.dtype))
        return super().budget(numerics, structured or finest < form(numerics.accumulate).precision)

    def _sums(self, added: Format) -> F64:
        return add_rounded(self.x.values, self.residual.values, added)

    def passage(self, output: str, numerics: Numerics) -> Passage | Rounded | None:
        """How an output follows from its rows under a settled contract, or its right values where it needs no roots;
        None where only the enclosures can tell."""
        if output != "sum":
            return super().passage(output, numerics)
        added = _added(numerics)
        if added.name not in self._right:
            sums = self._sums(added)
            self._right[added.name] = Rounded(round_to(np.abs(sums), self.target), np.signbit(sums))
        return None if numerics.saturate else self._right[added.name]

    def _enclose(self, output: str, found: Roots, numerics: Numerics) -> Enclosure:
        if output != "sum":
            return super()._enclose(output, found, numerics)
        sums = self._sums(_added(numerics))
        magnitudes = np.abs(sums)
        enclosure = rounded(self.target, np.broadcast_to(magnitudes, (5, *magnitudes.shape)), numerics.saturate)
        nan = np.where(np.isnan(sums), REQUIRED, FORBIDDEN).astype(np.int8) if np.isnan(sums).any() else None
        return replace(enclosure, negative=np.signbit(sums), nan=nan)

    def bounds(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> Bounds:
        """Precise tier: what element `index` (canonical) of `output` may be, at the current working precision."""
        if output != "sum":
            return super().bounds(output, index, numerics, structured)
        added = _added(numerics.settled(self.dtype.name))
        x, residual = float(self.x.values[index]), float(self.residual.values[index])
        exact = add_exactly(x, residual)
        if mpmath.isnan(exact):
            return Bounds(self.target, exact, exact, exact, None, REQUIRED)
        # An exact zero is +0, unless both terms are -0; a sum that rounds to zero keeps its sign.
        negative = bool(exact < 0) or (not exact and sign_bit(x) and sign_bit(residual))
        value = mpf(round_precise(abs(exact), added))
        return Bounds(self.target, value, value, value, negative, saturate=numerics.saturate)

    def terms(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> tuple[Term, ...]:
        """The budget of one element to first order, in units of the output; the sum has none."""
        return () if output == "sum" else super().terms(output, index, numerics, structured)


def _added(numerics: Numerics) -> Format:
    assert numerics.multiply is not None, "the contract is settled"
    return form(numerics.multiply)
