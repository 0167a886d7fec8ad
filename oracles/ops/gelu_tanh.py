"""Op `gelu_tanh`: an approximation of `gelu` without the error function, elementwise."""

from oracles.formula.trace import Node, Outputs, exp, tanh
from oracles.op import Op
from oracles.ops.gelu import X, Y

ROOT = 0.7978845608028654
"""sqrt(2 / pi)."""
CUBIC = 0.044715


def gelu_tanh(x: Node) -> Outputs:
    """y = x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    u = ROOT * (x + CUBIC * (x * x * x))
    twice = 1.0 + tanh(u)
    return {"y": 0.5 * x * twice}


OP = Op(
    gelu_tanh, inputs=(X,), outputs=(Y,), aliases=(("y", "x"),),
    algorithms={
        "u": {"square": lambda x: ROOT * x * (1.0 + CUBIC * (x * x)),
              "apart": lambda x: ROOT * x + ROOT * (CUBIC * (x * x * x))},
        # The sigmoid of 2 u, in which the exponential may overflow.
        "y": {"quotient": lambda x, u: x / (1.0 + exp(-2.0 * u)), "half last": lambda x, twice: x * twice * 0.5,
              "half first": lambda x, twice: x * (0.5 * twice)},
    },
    summary="gelu by a hyperbolic tangent",
)  # fmt: skip
