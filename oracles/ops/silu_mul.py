"""Op `silu_mul`: one tensor gated by another one, as in SwiGLU, elementwise."""

from oracles.formula.trace import Node, Outputs, exp, point, sigmoid
from oracles.op import Op
from oracles.operand import Flip, Operand

GATE, UP = Operand("gate", "... n"), Operand("up", "... n")
# If the exponential overflows, the quotient is 0, as the sigmoid is.
SIGMOID = {"quotient": lambda gate: 1.0 / (1.0 + exp(-gate))}
QUOTIENT = {"quotient": lambda gate: gate / (1.0 + exp(-gate))}


def silu_mul(gate: Node, up: Node) -> Outputs:
    """y = h up, h = gate sigmoid(gate). h may be rounded before it is multiplied."""
    s = sigmoid(gate)
    h = gate * s
    return {"y": point(h) * up}


OP = Op(
    silu_mul, inputs=(GATE, UP), outputs=(Operand("y", "... n"),), aliases=(("y", "gate"), ("y", "up")),
    flips=(Flip(("up",), ("y",)),), algorithms={"s": SIGMOID, "h": QUOTIENT},
    summary="silu of one tensor, times another one",
)  # fmt: skip
