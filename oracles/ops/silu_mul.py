"""One tensor gated by another one, as in SwiGLU, elementwise; and the gradients."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, exp, point, sigmoid
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import DY

GATE, UP = Operand("gate", "... n"), Operand("up", "... n")
# If the exponential overflows, the quotient is 0, as the sigmoid is.
SIGMOID = {"quotient": lambda gate: 1.0 / (1.0 + exp(-gate))}
QUOTIENT = {"quotient": lambda gate: gate / (1.0 + exp(-gate))}


def silu_mul(gate: Node, up: Node) -> Outputs:
    """y = h up, h = gate sigmoid(gate). h may be rounded before it is multiplied."""
    s = sigmoid(gate)
    h = gate * s
    return {"y": point(h) * up}


SILU_MUL = Op(
    silu_mul, inputs=(GATE, UP), outputs=(Operand("y", "... n"),), aliases=(("y", "gate"), ("y", "up")),
    flips=(Flip(("up",), ("y",)),), algorithms={"s": SIGMOID, "h": QUOTIENT},
    summary="silu of one tensor, times another one",
)  # fmt: skip


def silu_mul_backward(gate: Node, up: Node, dy: Node) -> Outputs:
    """dup = dy gate s and dgate = dy up s (1 + gate (1 - s)), s = sigmoid(gate)."""
    s = sigmoid(gate)
    h = gate * s
    slope = s * (1.0 + gate * (1.0 - s))
    dgate = dy * up * slope
    return {"dgate": dgate, "dup": dy * point(h)}


SILU_MUL_BACKWARD = Op(
    silu_mul_backward, inputs=(GATE, UP, DY), outputs=(Operand("dgate", "... n"), Operand("dup", "... n")),
    aliases=(("dgate", "gate"), ("dup", "up")),
    flips=(Flip(("dy",), ("dgate", "dup"), zeros=True), Flip(("up",), ("dgate",), zeros=True)),
    algorithms={
        "s": SIGMOID,
        "h": QUOTIENT,
        "slope": {"sum": lambda s, h: h * (1.0 - s) + s},
        "dgate": {"slope first": lambda up, dy, slope: dy * slope * up,
                  "slope last": lambda up, dy, slope: dy * (up * slope)},
    },
    summary="gradients of silu_mul by both tensors",
)  # fmt: skip
