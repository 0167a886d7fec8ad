"""Op `row_max_backward`: the gradient of `row_max`, of which there are several if elements are equal."""

from oracles.formula.trace import Node, Outputs, greatest, position, total, where
from oracles.op import Op
from oracles.operand import Parameter
from oracles.ops.rms_norm import X
from oracles.ops.rms_norm_backward import DX
from oracles.ops.row_sum_backward import DY

INF = float("inf")
OF_TIES = Parameter("of_ties", (0.0, 1.0, 2.0, 3.0), neutral=0.0, least=0.0)


def row_max_backward(x: Node, dy: Node, *, of_ties: Node | float = 0.0) -> Outputs:
    """dx = dy at the greatest element of a row, and 0 elsewhere. If k elements are greatest, each has dy / k; with
    of_ties = 1 only the first has dy, with 2 only the last, with 3 each. In a row with a NaN all are NaN."""
    most = greatest(x, "n")
    is_most = where(x == most, 1.0, 0.0)
    count = total(is_most, "n")
    place = position("n")
    first = -greatest(where(is_most, -place, -INF), "n")
    last = greatest(where(is_most, place, -INF), "n")
    one = where(of_ties >= 1.5, last, first)
    picked = where(of_ties >= 2.5, is_most, where(of_ties >= 0.5, where(place == one, 1.0, 0.0), is_most))
    share = where(of_ties >= 0.5, dy, dy / count)
    return {"dx": where(most == most, where(picked, share, 0.0), float("nan"))}


OP = Op(
    row_max_backward, inputs=(X, DY), outputs=(DX,), parameters=(OF_TIES,), aliases=(("dx", "x"),), least={"n": 1},
    summary="gradients of greatest elements of rows",
)  # fmt: skip
