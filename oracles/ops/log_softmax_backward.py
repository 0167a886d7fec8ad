"""Op `log_softmax_backward`: the gradient of `log_softmax`, calculated from its output."""

from oracles.formula.trace import Node, Outputs, exp, total
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm_backward import DX, DY

LOGARITHMS = Operand("y", "... n", values="log_probabilities")


def log_softmax_backward(y: Node, dy: Node) -> Outputs:
    """dx = dy - exp(y) sum(dy)."""
    mass = total(dy, "n")
    return {"dx": dy - exp(y) * mass}


OP = Op(
    log_softmax_backward, inputs=(LOGARITHMS, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "y")),
    flips=(Flip(("dy",), ("dx",), zeros=True),), scaling={"dy": 1, "dx": 1},
    summary="gradient of log_softmax, from its output",
)  # fmt: skip
