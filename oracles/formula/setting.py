"""One problem under one contract: what every operation of a budget asks."""

from __future__ import annotations

from dataclasses import dataclass

from oracles.dtypes import Format, form
from oracles.formula.centre import Inputs
from oracles.formula.contract import Contract
from oracles.formula.trace import Node
from oracles.summation import Summation


@dataclass(frozen=True)
class Setting:
    """A problem of a formula, and a contract that is settled."""

    inputs: Inputs
    contract: Contract
    structured: bool = False
    """Whether rounding errors are not random, so that only the worst case is sound."""

    def name(self, node: Node) -> str:
        """What a contract calls a node; "" of one without a name."""
        return self.inputs.trace.names.get(node, "")

    def dtype(self, node: Node) -> Format:
        """The dtype in which a value is calculated."""
        return form(self.contract.dtypes.get(self.name(node), self.contract.compute))

    def order(self, node: Node) -> Summation:
        """The order of a sum."""
        return self.contract.order(self.name(node), node.label)

    def is_fused(self, node: Node) -> bool:
        """Whether a product may go into a sum without being rounded."""
        return self.contract.fused and node in self.inputs.trace.added
