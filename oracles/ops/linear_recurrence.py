"""Op `linear_recurrence`: states with decay and additions, as in selective scans and gated linear attention."""

from oracles.formula.trace import Node, Outputs, scan
from oracles.op import Op
from oracles.operand import Operand


def linear_recurrence(x: Node, gate: Node, h0: Node | float = 0.0) -> Outputs:
    """h(i) = gate(i) h(i - 1) + x(i), where h(-1) is h0, or 0."""
    return {"hs": scan(gate, x, "n", h0)}


OP = Op(
    linear_recurrence,
    inputs=(
        Operand("x", "... n"), Operand("gate", "... n", values="gates"),
        Operand("h0", "...", values="finite", optional=True),
    ),
    outputs=(Operand("hs", "... n"),),
    aliases=(("hs", "x"),),
    summary="states of a gated recurrence, h(i) = gate(i) h(i - 1) + x(i)",
)  # fmt: skip
