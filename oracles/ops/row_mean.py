"""Op `row_mean`: the mean of each row."""

from oracles.formula.trace import Node, Outputs, avg
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops.rms_norm import X
from oracles.ops.row_sum import Y


def row_mean(x: Node) -> Outputs:
    """y = mean(x); NaN for rows without elements."""
    return {"y": avg(x, "n")}


OP = Op(
    row_mean, inputs=(X,), outputs=(Y,), flips=(Flip(("x",), ("y",), zeros=True),), scaling={"x": 1, "y": 1},
    summary="means of rows",
)  # fmt: skip
