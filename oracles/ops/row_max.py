"""Op `row_max`: the greatest element of each row."""

from oracles.formula.trace import Node, Outputs, greatest
from oracles.op import Op
from oracles.ops.rms_norm import X
from oracles.ops.row_sum import Y


def row_max(x: Node) -> Outputs:
    """y = max(x); NaN if an element is NaN."""
    return {"y": greatest(x, "n")}


OP = Op(
    row_max, inputs=(X,), outputs=(Y,), scaling={"x": 1, "y": 1}, least={"n": 1}, summary="greatest elements of rows"
)
