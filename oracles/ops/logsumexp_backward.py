"""Op `logsumexp_backward`: the gradient of `logsumexp`, calculated from its output or from x alone."""

from oracles.formula.trace import Node, Outputs, exp, greatest, log, total
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.logsumexp import OPEN, finite
from oracles.ops.rms_norm_backward import DX
from oracles.ops.row_sum_backward import DY
from oracles.ops.softmax import LOGITS, ONLINE

GIVEN_Y = Operand("y", "...", optional=True, values="local")


def logsumexp_backward(x: Node, dy: Node, y: Node | None = None) -> Outputs:
    """dx = dy exp(x - y), where y is an input, or log(sum(exp(x - max(x)))) + max(x); if the maximum is infinite, see
    `logsumexp`."""
    if y is None:
        most = greatest(x, "n")
        mass = total(exp(x - most), "n")
        y = log(mass) + most
    return {"dx": dy * exp(x - y)}


OP = Op(
    logsumexp_backward, inputs=(LOGITS, DY, GIVEN_Y), outputs=(DX,), aliases=(("dx", "x"),), least={"n": 1},
    flips=(Flip(("dy",), ("dx",)),), scaling={"dy": 1, "dx": 1},
    algorithms={"mass": ONLINE, "most": {"finite": finite}}, open_ways=OPEN,
    summary="gradients of logarithms of sums of exponentials of rows",
)  # fmt: skip
