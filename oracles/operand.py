"""What an op normalises and scales by: the numbers, their signs and their exact sums, shared by all contracts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import mpmath
import numpy as np
from mpmath import mpf

from oracles.budget import RowBudget
from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.enclosure import Mask, canonical
from oracles.lazy import lazy
from oracles.numerics import Numerics
from oracles.precise import RowBounds, add_exactly, count_underflows, row_bounds, sum_of_squares
from oracles.problem import Problem, ProblemError
from oracles.rounding import add_rounded, round_precise
from oracles.rows import DOUBLE_DOUBLE, FLOAT64, Squares
from oracles.steps import Live


def sign_bit(value: float) -> bool:
    """Sign bit of a float; False for NaN's, whose sign means nothing."""
    return math.copysign(1.0, value) < 0


@dataclass(frozen=True)
class RowOperand:
    """Rows to be normalised: (rows, n) float64 values of a tensor of `dtype`."""

    values: F64
    dtype: Format
    wide: bool = False
    """True: what is made of the rows is so exact that float64 cannot enclose it, whatever their dtype."""
    _totals: dict[int, mpf] = field(default_factory=dict, repr=False, compare=False)
    _underflows: dict[tuple[int, str], int] = field(default_factory=dict, repr=False, compare=False)
    _rows: dict[tuple[int, RowBudget, int], RowBounds] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(problem: Problem, name: str) -> RowOperand:
        """The input called `name`, with the normalised axis last. Raises `ProblemError` where shapes do not fit."""
        array = problem.input(name)
        if array.shape != problem.input("x").shape:
            raise ProblemError(f"inputs.{name}: shape {array.shape}, expected {problem.input('x').shape}")
        return RowOperand(canonical(array, problem.axis).astype(np.float64), problem.form_of(name))

    @lazy
    def squares(self) -> Squares:
        """Sums of squares for the fast tier."""
        return Squares(self.values, DOUBLE_DOUBLE if self.wide or self.dtype.name == "f64" else FLOAT64)

    @lazy
    def negative(self) -> Mask:
        """(rows, n) sign bits."""
        return np.signbit(self.values)

    @lazy
    def live(self) -> Live:
        """1.0 where an element is not zero."""
        dead = self.values == 0
        return (~dead).astype(np.float64) if dead.any() else 1.0

    def row_bounds(self, row: int, budget: RowBudget) -> RowBounds:
        """Precise tier: facts of one row at the current working precision."""
        key = row, budget, mpmath.mp.prec
        if key not in self._rows:
            self._rows[key] = row_bounds(self._total(row), self._underflowing(row, budget.form), budget)
        return self._rows[key]

    def _total(self, row: int) -> mpf:
        if row not in self._totals:
            self._totals[row] = sum_of_squares(self.values[row].tolist())
        return self._totals[row]

    def _underflowing(self, row: int, accumulator: Format) -> int:
        key = row, accumulator.name
        if key not in self._underflows:
            self._underflows[key] = count_underflows(self.values[row].tolist(), accumulator)
        return self._underflows[key]


@dataclass(frozen=True)
class Weight:
    """offset + weight, one per column, or one per element."""

    values: F64
    """The shape is (n,) or (rows, n)."""
    dtype: Format
    offset: float

    @staticmethod
    def of(problem: Problem, length: int) -> Weight:
        """The input `weight`. Raises `ProblemError` where its shape does not fit rows of `length`.

        With rank 2 it has one row for all rows of x, or one for each position along the innermost axis beside the
        normalised one: row r of x, in C order, takes row r mod that many.
        """
        array, shape = problem.input("weight"), problem.input("x").shape
        others = shape[: problem.axis] + shape[problem.axis + 1 :]
        beside = others[-1] if others else 1
        if array.shape not in ((length,), (1, length), (beside, length)):
            raise ProblemError(f"inputs.weight: shape {array.shape}, expected {(length,)} or {(beside, length)}")
        if array.ndim == 2:  # without columns there are no rows either, as of every operand
            array = array[np.arange(math.prod(others) if length else 0) % max(len(array), 1)]
        offset = float(problem.params.get("weight_offset", 0.0))
        if not math.isfinite(offset):
            raise ProblemError(f"params.weight_offset: must be finite, not {offset}")
        return Weight(array.astype(np.float64), problem.form_of("weight"), offset)

    def formed_in(self, numerics: Numerics) -> Format:
        """The dtype in which offset + weight is formed."""
        assert numerics.multiply is not None, "the contract is settled"
        return self.dtype if numerics.offset == "weight" else form(numerics.multiply)

    @lazy
    def broken(self) -> Mask | None:
        """Columns whose weight is NaN or infinite; None where none is."""
        wrong = ~np.isfinite(self.values)
        return wrong if wrong.any() else None

    def at(self, numerics: Numerics) -> tuple[F64, Mask]:
        """Fast tier: magnitudes and sign bits of offset + weight, one correctly rounded addition."""
        values = add_rounded(self.values, self.offset, self.formed_in(numerics)) if self.offset else self.values
        return np.abs(values), np.signbit(values)

    def signed(self, numerics: Numerics) -> F64:
        """Fast tier: offset + weight."""
        magnitudes, negative = self.at(numerics)
        return np.where(negative, -magnitudes, magnitudes)

    def value(self, index: tuple[int, ...], numerics: Numerics) -> float:
        """Precise tier: offset + weight of element (row, column)."""
        weight = float(self.values[index[-self.values.ndim :]])
        if not self.offset or not math.isfinite(weight):
            return weight
        return round_precise(add_exactly(weight, self.offset), self.formed_in(numerics))
