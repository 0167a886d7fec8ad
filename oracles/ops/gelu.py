"""Op `gelu`: the Gaussian error linear unit, elementwise."""

from oracles.formula.trace import Node, Outputs, erf
from oracles.op import Op
from oracles.operand import Operand

X, Y = Operand("x", "... n"), Operand("y", "... n")
ROOT_HALF = 0.7071067811865476
"""sqrt(1/2)."""


def gelu(x: Node) -> Outputs:
    """y = x (1 + erf(x / sqrt(2))) / 2."""
    twice = 1.0 + erf(x * ROOT_HALF)
    return {"y": 0.5 * x * twice}


OP = Op(
    gelu, inputs=(X,), outputs=(Y,), aliases=(("y", "x"),),
    algorithms={"y": {"half last": lambda x, twice: x * twice * 0.5, "half first": lambda x, twice: x * (0.5 * twice)}},
    summary="x times the normal distribution function of x",
)  # fmt: skip
