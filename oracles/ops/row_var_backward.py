"""Op `row_var_backward`: the gradient of `row_var`."""

from oracles.formula.trace import Node, Outputs, avg, extent, welford_mean
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops.rms_norm import X
from oracles.ops.rms_norm_backward import DX
from oracles.ops.row_sum_backward import DY
from oracles.ops.row_var import CORRECTION


def row_var_backward(x: Node, dy: Node, *, correction: Node) -> Outputs:
    """dx = 2 dy (x - mean) / (n - correction)."""
    mean = avg(x, "n")
    factor = 2.0 * dy / (extent("n") - correction)
    return {"dx": factor * (x - mean)}


OP = Op(
    row_var_backward, inputs=(X, DY), outputs=(DX,), parameters=(CORRECTION,), aliases=(("dx", "x"),), least={"n": 2},
    flips=(Flip(("dy",), ("dx",), zeros=True), Flip(("x",), ("dx",), zeros=True)), scaling={"dy": 1, "dx": 1},
    algorithms={"mean": {"welford": lambda x: welford_mean(x, "n")}}, summary="gradients of variances of rows",
)  # fmt: skip
