"""Op `cumsum`: cumulative sums of each row."""

from oracles.formula.trace import Node, Outputs, scan
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.rms_norm import X


def cumsum(x: Node) -> Outputs:
    """y(i) = x(0) + ... + x(i)."""
    return {"y": scan(1.0, x, "n")}


OP = Op(
    cumsum, inputs=(X,), outputs=(Operand("y", "... n"),), aliases=(("y", "x"),),
    summary="sums of rows up to each element",
)  # fmt: skip
