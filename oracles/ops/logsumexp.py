"""Op `logsumexp`: the logarithm of the sum of the exponentials of each row."""

from oracles.formula.trace import Node, Outputs, exp, greatest, log, total, where
from oracles.op import Op
from oracles.ops.row_sum import Y
from oracles.ops.softmax import LOGITS, ONLINE


def logsumexp(x: Node) -> Outputs:
    """y = log(sum(exp(x - max(x)))) + max(x). If the maximum of a row is infinite, y is that infinity, as
    log(sum(exp(x))) is, with the algorithm "finite" of the maximum, which replaces it by 0; and NaN with the formula's
    own. A contract that names no algorithm of the maximum allows both."""
    most = greatest(x, "n")
    mass = total(exp(x - most), "n")
    return {"y": log(mass) + most}


def finite(x: Node) -> Node:
    """Return the maximum, or 0 where the maximum is infinite."""
    most, inf = greatest(x, "n"), float("inf")
    return where(most >= inf, 0.0, where(most <= -inf, 0.0, most))


OPEN = {"most": ("formula", "finite")}
"""The allowed algorithms: libraries return the infinity; kernels that always subtract the maximum return NaN."""
OP = Op(
    logsumexp, inputs=(LOGITS,), outputs=(Y,), least={"n": 1},
    algorithms={"mass": ONLINE, "most": {"finite": finite}}, open_ways=OPEN,
    summary="logarithms of sums of exponentials of rows",
)  # fmt: skip
