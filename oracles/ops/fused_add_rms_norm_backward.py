"""Op `fused_add_rms_norm_backward`: gradients of `fused_add_rms_norm` with respect to both addends and the weight."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, point
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import EPS, WEIGHT_OFFSET, X, root
from oracles.ops.rms_norm_backward import ALGORITHMS, ALONG, DW, DX, DY_ALONG, GIVEN_RSTD, WEIGHT, gradients


def fused_add_rms_norm_backward(
    x: Node,
    dy: Node,
    dsum: Node | None = None,
    weight: Node | None = None,
    rstd: Node | None = None,
    *,
    eps: Node,
    weight_offset: Node | float = 0.0,
) -> Outputs:
    """dx and dw are those of `rms_norm` for x, the sum; dx also has dsum, the sum's own gradient; dresidual is dx."""
    dx, dw = gradients(x, dy, weight, root(x, eps) if rstd is None else rstd, weight_offset)
    dsummed = dx if dsum is None else dx + dsum
    dresidual = point(dsummed)
    return {"dx": dresidual, "dresidual": dresidual, "dw": point(dw)}


OP = Op(
    fused_add_rms_norm_backward,
    inputs=(X, DY_ALONG, Operand("dsum", "... n", optional=True, values="gradient along"), WEIGHT, GIVEN_RSTD),
    outputs=(DX, Operand("dresidual", "... n", optional=True), DW),
    parameters=(EPS, WEIGHT_OFFSET),
    aliases=(("dx", "dy"), ("dx", "dsum"), ("dresidual", "dsum"), ("dresidual", "dy")),
    flips=(Flip(("x",), ("dw",), zeros=True), Flip(("dy", "dsum"), ("dx", "dresidual", "dw"), zeros=True)),
    scaling={"x": 1, "rstd": -1, "dsum": -1, "dx": -1, "dresidual": -1},
    recipes=ALONG,
    algorithms=ALGORITHMS,
    summary="gradients of fused_add_rms_norm by x, residual and weight",
)
