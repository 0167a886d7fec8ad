"""The record of a function of two values."""

from __future__ import annotations

from dataclasses import dataclass

from oracles.elementary import FormulaError
from oracles.elementary.function import Elementary, Named


@dataclass(frozen=True, kw_only=True, eq=False)
class OfTwo(Named):
    """A function of two values. `oracles.formula.pairs` has the expression that it is."""

    examples: tuple[float, ...] = ()

    def of(self, constant: float, low: float) -> Elementary:
        """Raise FormulaError, as there is no function of one value."""
        raise FormulaError(f"{self.name} takes two values: write f.{self.name}(value, other)")
