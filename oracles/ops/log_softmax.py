"""Op `log_softmax`: the logarithm of `softmax`, without calculating the softmax."""

from oracles.formula.trace import Node, Outputs, exp, greatest, log, total
from oracles.op import Op
from oracles.ops.softmax import LOGITS, ONLINE, Y


def log_softmax(x: Node) -> Outputs:
    """y = (x - max(x)) - log(sum(exp(x - max(x)))). A row all of minus infinity gives NaN."""
    shifted = x - greatest(x, "n")
    mass = total(exp(shifted), "n")
    return {"y": shifted - log(mass)}


OP = Op(
    log_softmax, inputs=(LOGITS,), outputs=(Y,), aliases=(("y", "x"),), algorithms={"mass": ONLINE},
    summary="logarithms of the softmax of rows",
)  # fmt: skip
