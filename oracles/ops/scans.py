"""Numbers of a row that build on those before: cumulative sums, and states with decay."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, scan
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.rms_norm import X


def cumsum(x: Node) -> Outputs:
    """y(i) = x(0) + ... + x(i)."""
    return {"y": scan(1.0, x, "n")}


CUMSUM = Op(
    cumsum, inputs=(X,), outputs=(Operand("y", "... n"),), aliases=(("y", "x"),),
    summary="sums of rows up to each element",
)  # fmt: skip


def linear_recurrence(x: Node, gate: Node, h0: Node | float = 0.0) -> Outputs:
    """h(i) = gate(i) h(i - 1) + x(i), where h(-1) is h0, or 0."""
    return {"hs": scan(gate, x, "n", h0)}


LINEAR_RECURRENCE = Op(
    linear_recurrence,
    inputs=(
        Operand("x", "... n"), Operand("gate", "... n", values="gates"),
        Operand("h0", "...", values="finite", optional=True),
    ),
    outputs=(Operand("hs", "... n"),),
    aliases=(("hs", "x"),),
    summary="states of a gated recurrence, h(i) = gate(i) h(i - 1) + x(i)",
)  # fmt: skip
