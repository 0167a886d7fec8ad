"""Op `softmax_backward`: the gradient of `softmax`, calculated from its output."""

from oracles.formula.trace import Node, Outputs, total
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm_backward import DX, DY

PROBABILITIES = Operand("y", "... n", values="probabilities")


def softmax_backward(y: Node, dy: Node) -> Outputs:
    """dx = y (dy - sum(y dy))."""
    dotted = total(y * dy, "n")
    return {"dx": y * (dy - dotted)}


OP = Op(
    softmax_backward, inputs=(PROBABILITIES, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "y")),
    flips=(Flip(("dy",), ("dx",), zeros=True),), scaling={"dy": 1, "dx": 1},
    algorithms={"dx": {"products": lambda y, dy, dotted: y * dy - y * dotted}},
    summary="gradient of softmax, from its output",
)  # fmt: skip
