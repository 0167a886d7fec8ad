"""Op `softmax`: exponentials of the elements of each row, divided by their sum."""

from oracles.formula.trace import Node, Outputs, exp, greatest, online_total, total
from oracles.op import Op
from oracles.operand import Operand

LOGITS = Operand("x", "... n", values="logits")
Y = Operand("y", "... n")
ONLINE = {"online": lambda x: online_total(x, "n")}


def softmax(x: Node) -> Outputs:
    """y = exp(x - max(x)) / sum(exp(x - max(x))). A row all of minus infinity gives NaN."""
    e = exp(x - greatest(x, "n"))
    mass = total(e, "n")
    return {"y": e / mass}


OP = Op(
    softmax, inputs=(LOGITS,), outputs=(Y,), aliases=(("y", "x"),),
    algorithms={"y": {"reciprocal": lambda e, mass: e * (1.0 / mass)}, "mass": ONLINE},
    summary="exponentials of rows, divided by their sum",
)  # fmt: skip
