"""Lanes: problems of a batch, each under contracts that differ in their summation alone. See `oracles.batch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oracles.doubledouble import F64, head
from oracles.dtypes import Format
from oracles.numerics import Numerics
from oracles.operand import RowOperand, Weight
from oracles.ragged import Ragged, joined
from oracles.screen import Allowance, Rounded
from oracles.steps import Passage


class Screened(Protocol):
    """One problem of an op that has screens."""

    dtype: Format
    weight: Weight | None

    def operand(self, numerics: Numerics) -> RowOperand:
        """What is normalised under a (settled) contract."""

    def allowed(self, contracts: Sequence[Numerics], structured: bool) -> Allowance | None:
        """What settled contracts allow that differ in their summation alone; None where only enclosures can tell.

        Raises `NumericsError` for a contract that the problem contradicts.
        """

    def passage(self, output: str, numerics: Numerics) -> Passage | Rounded | None:
        """How an output follows from its rows under a settled contract, or its right values where it needs no roots;
        None where only the enclosures can tell."""


@dataclass(eq=False, slots=True)
class Lane:
    """One problem under contracts that differ in their summation alone."""

    op: Screened
    numerics: Numerics
    """The first of the settled contracts."""
    allowed: Allowance
    track: int

    @property
    def formed(self) -> Format:
        """The dtype that the weight is formed in."""
        assert self.op.weight is not None
        return self.op.weight.formed_in(self.numerics)


class Tracks:
    """The rows of operands, and their roots under one count and eps; all of them joined."""

    def __init__(self) -> None:
        self.operands: list[RowOperand] = []
        self._places: dict[tuple[int, float, float, float], int] = {}

    def place(self, operand: RowOperand, allowed: Allowance) -> int:
        """The number of a track."""
        budget = allowed.budget
        key = id(operand), budget.count, budget.eps, budget.overflow
        if key not in self._places:
            self._places[key] = len(self.operands)
            self.operands.append(operand)
        return self._places[key]

    def join(self) -> None:
        """Form what is the same for all contracts; as `Squares.share` and `exact_roots` do."""
        if not self.operands:
            return
        self.rows = Ragged.of(len(operand.values) for operand in self.operands)
        keys = np.array([key[1:] for key in self._places]).T
        counts, eps, overflow = keys.repeat(self.rows.lengths, axis=1)
        sums = joined([head(operand.squares.sums) for operand in self.operands])
        means = sums / counts
        values = means + eps
        self.shares: F64 = means / values
        self.roots: F64 = np.where(sums >= overflow, 0.0, 1.0 / np.sqrt(values))
        self.smallest: list[float] = self.rows.smallest(self.roots).tolist()
        """The smallest root of each track that is not zero, or inf."""
