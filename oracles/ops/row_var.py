"""Op `row_var`: the variance of each row."""

from oracles.formula.trace import Node, Outputs, avg, extent, total, welford_mean, welford_squares
from oracles.op import Op
from oracles.operand import Flip, Parameter
from oracles.ops.rms_norm import X
from oracles.ops.row_sum import Y

CORRECTION = Parameter("correction", (1.0, 0.0), least=0.0)


def row_var(x: Node, *, correction: Node) -> Outputs:
    """y = sum((x - mean)^2) / (n - correction)."""
    mean = avg(x, "n")
    centred = x - mean
    squares = total(centred * centred, "n")
    return {"y": squares / (extent("n") - correction)}


OP = Op(
    row_var, inputs=(X,), outputs=(Y,), parameters=(CORRECTION,), least={"n": 2},
    flips=(Flip(("x",), ()),), scaling={"x": 1, "y": 2},
    algorithms={"mean": {"welford": lambda x: welford_mean(x, "n")},
                "squares": {"welford": lambda x: welford_squares(x, "n")}},
    summary="variances of rows",
)  # fmt: skip
