"""Op `row_sum`: the sum of each row."""

from oracles.formula.trace import Node, Outputs, total
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import X

Y = Operand("y", "...")


def row_sum(x: Node) -> Outputs:
    """y = sum(x); 0 for rows without elements."""
    return {"y": total(x, "n")}


OP = Op(
    row_sum, inputs=(X,), outputs=(Y,), flips=(Flip(("x",), ("y",), zeros=True),), scaling={"x": 1, "y": 1},
    summary="sums of rows",
)  # fmt: skip
