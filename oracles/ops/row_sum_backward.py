"""Op `row_sum_backward`: the gradient of `row_sum`."""

from oracles.formula.trace import Node, Outputs, position, where
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import X
from oracles.ops.rms_norm_backward import DX

DY = Operand("dy", "...", values="gradient")


def row_sum_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy at each element of a row, whatever x is."""
    return {"dx": spread(dy)}


def spread(value: Node) -> Node:
    """Return the same value at each place of a row."""
    return where(position("n") >= 0.0, value, 0.0)


OP = Op(
    row_sum_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "x"),),
    flips=(Flip(("dy",), ("dx",)),), scaling={"dy": 1, "dx": 1}, summary="gradients of sums of rows",
)  # fmt: skip
