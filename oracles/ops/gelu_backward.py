"""Op `gelu_backward`: the gradient of `gelu`."""

from oracles.formula.trace import Node, Outputs, erf, exp
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops.gelu import ROOT_HALF
from oracles.ops.rms_norm import X
from oracles.ops.rms_norm_backward import DX, DY

ROOT_OF_HALF_TURN = 0.3989422804014327
"""1 / sqrt(2 pi)."""


def gelu_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy (cdf + x pdf), cdf = (1 + erf(x / sqrt(2))) / 2, pdf = exp(-x^2 / 2) / sqrt(2 pi)."""
    cdf = 0.5 * (1.0 + erf(x * ROOT_HALF))
    pdf = exp(x * x * -0.5) * ROOT_OF_HALF_TURN
    return {"dx": dy * (cdf + x * pdf)}


OP = Op(
    gelu_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("dy",), ("dx",), zeros=True),), summary="gradient of gelu",
)  # fmt: skip
