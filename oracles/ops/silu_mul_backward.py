"""Op `silu_mul_backward`: the gradients of `silu_mul`."""

from oracles.formula.trace import Node, Outputs, point, sigmoid
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm_backward import DY
from oracles.ops.silu_mul import GATE, QUOTIENT, SIGMOID, UP


def silu_mul_backward(gate: Node, up: Node, dy: Node) -> Outputs:
    """dup = dy gate s and dgate = dy up s (1 + gate (1 - s)), s = sigmoid(gate)."""
    s = sigmoid(gate)
    h = gate * s
    slope = s * (1.0 + gate * (1.0 - s))
    dgate = dy * up * slope
    return {"dgate": dgate, "dup": dy * point(h)}


OP = Op(
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
