"""Op `softmax`: exponentials of the elements of each row, divided by their sum."""

from oracles.formula.trace import Node, Outputs, exp, exp2, greatest, log, online_total, total
from oracles.op import Op
from oracles.operand import Operand

LOGITS = Operand("x", "... n", values="logits")
Y = Operand("y", "... n")
ONLINE = {"online": lambda x: online_total(x, "n")}


def base_2(x: Node) -> Node:
    """Return e^(x - maximum) by a power of 2. x and the maximum are first divided by log(2) and rounded, so that the
    error grows with x, not with the difference."""
    units = x * (1.0 / log(2.0))
    return exp2(units - greatest(units, "n"))


def softmax(x: Node) -> Outputs:
    """y = exp(x - max(x)) / sum(exp(x - max(x))). A row of minus infinities gives NaN."""
    e = exp(x - greatest(x, "n"))
    mass = total(e, "n")
    return {"y": e / mass}


OP = Op(
    softmax, inputs=(LOGITS,), outputs=(Y,), aliases=(("y", "x"),),
    algorithms={"e": {"base 2": base_2}, "y": {"reciprocal": lambda e, mass: e * (1.0 / mass)}, "mass": ONLINE},
    summary="exponentials of rows, divided by their sum",
)  # fmt: skip
