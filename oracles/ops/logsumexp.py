"""Op `logsumexp`: the logarithm of the sum of the exponentials of each row."""

from oracles.formula.trace import Node, Outputs, exp, greatest, log, total
from oracles.op import Op
from oracles.ops.row_sum import Y
from oracles.ops.softmax import LOGITS, ONLINE


def logsumexp(x: Node) -> Outputs:
    """y = log(sum(exp(x - max(x)))) + max(x). A row all of minus infinity gives NaN."""
    most = greatest(x, "n")
    mass = total(exp(x - most), "n")
    return {"y": log(mass) + most}


OP = Op(
    logsumexp, inputs=(LOGITS,), outputs=(Y,), least={"n": 1}, algorithms={"mass": ONLINE},
    summary="logarithms of sums of exponentials of rows",
)  # fmt: skip
