"""Op `row_mean_backward`: the gradient of `row_mean`."""

from oracles.formula.trace import Node, Outputs, extent
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops.rms_norm import X
from oracles.ops.rms_norm_backward import DX
from oracles.ops.row_sum_backward import DY, spread


def row_mean_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy / n at each of the n elements of a row, whatever x is."""
    share = dy / extent("n")
    return {"dx": spread(share)}


OP = Op(
    row_mean_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "x"),),
    flips=(Flip(("dy",), ("dx",)),), scaling={"dy": 1, "dx": 1},
    algorithms={"share": {"reciprocal": lambda dy: dy * (1.0 / extent("n"))}}, summary="gradients of means of rows",
)  # fmt: skip
