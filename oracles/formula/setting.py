"""One problem under one contract: what every operation of a budget asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracles.budget import sum_budget
from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.formula.centre import Inputs
from oracles.formula.contract import Contract
from oracles.formula.trace import Node
from oracles.op import OUTER
from oracles.summation import Summation


@dataclass(frozen=True)
class Setting:
    """A problem of a formula, and a contract that is settled."""

    inputs: Inputs
    contract: Contract
    structured: bool = False
    """Whether rounding errors are not random, so that only the worst case is sound."""
    each: Sequence[tuple[Contract, int]] = ()
    """Contracts that differ in the orders of sums alone, each with the number of rows that it is about; none: all rows
    are about the one."""

    def name(self, node: Node) -> str:
        """What a contract calls a node; "" of one without a name."""
        return self.inputs.trace.names.get(node, "")

    def dtype(self, node: Node) -> Format:
        """The dtype in which a value is calculated."""
        return form(self.contract.dtypes.get(self.name(node), self.contract.compute))

    def order(self, node: Node) -> Summation:
        """The order of a sum."""
        return self.contract.order(self.name(node), node.label)

    def sum_errors(self, node: Node, worst_case: bool) -> tuple[F64 | float, F64 | float, bool]:
        """The relative error of a sum, in the worst case where it must be so; that of the worst case; and whether the
        two differ. One for each row where rows have contracts of their own."""
        dtype, n = self.dtype(node), self.inputs.extents[node.label]
        contracts = [contract for contract, _ in self.each] or [self.contract]
        chains = [contract.order(self.name(node), node.label).chain(n) for contract in contracts]
        likely = [sum_budget(dtype, chain, worst_case) for chain in chains]
        worst = [sum_budget(dtype, chain, True)[1] for chain in chains]
        differ = any(statistical for _, _, statistical in likely)
        if not self.each:
            return likely[0][1], worst[0], differ
        rows = [count for _, count in self.each]
        shape = [-1 if dim == OUTER else 1 for dim in self.inputs.trace.dims]
        by_row = (np.repeat(values, rows).reshape(shape) for values in ([up for _, up, _ in likely], worst))
        return next(by_row), next(by_row), differ

    def is_fused(self, node: Node) -> bool:
        """Whether a product may go into a sum without being rounded."""
        return self.contract.fused and node in self.inputs.trace.added
