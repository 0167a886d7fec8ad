"""Op `fused_add_rms_norm`: two tensors added, then `rms_norm` of the sum."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, point
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import EPS, RSTD, WEIGHT_OFFSET, WEIGHTS, X, rms_norm


def fused_add_rms_norm(
    x: Node, residual: Node, weight: Node | None = None, *, eps: Node, weight_offset: Node | float = 0.0
) -> Outputs:
    """sum = x + residual, y = sum rstd (weight_offset + weight), rstd = 1/sqrt(mean(sum^2) + eps)."""
    added = x + residual
    return {**rms_norm(point(added), weight, eps=eps, weight_offset=weight_offset), "sum": added}


OP = Op(
    fused_add_rms_norm,
    inputs=(X, Operand("residual", "... n", values="addend"), WEIGHTS),
    outputs=(Operand("y", "... n"), Operand("sum", "... n", optional=True), RSTD),
    parameters=(EPS, WEIGHT_OFFSET),
    aliases=(("y", "x"), ("sum", "residual"), ("sum", "x"), ("y", "residual")),
    flips=(Flip(("x", "residual"), ("y", "sum"), zeros=True),),
    scaling={"x": 1, "residual": 1, "sum": 1, "rstd": -1},
    summary="x + residual, and its rows divided by their root mean square, times a weight",
)
