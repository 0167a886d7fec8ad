"""Op `gelu_tanh_backward`: the gradient of `gelu_tanh`."""

from oracles.formula.trace import Node, Outputs, tanh
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops.gelu_tanh import CUBIC, ROOT
from oracles.ops.rms_norm import X
from oracles.ops.rms_norm_backward import DX, DY


def gelu_tanh_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy ((1 + t) / 2 + x (1 - t^2) u' / 2), t = tanh(u), u' = sqrt(2 / pi) (1 + 3 0.044715 x^2)."""
    square = x * x
    t = tanh(ROOT * (x + CUBIC * (square * x)))
    rise = 1.0 - t * t
    slope = ROOT * (1.0 + 3.0 * CUBIC * square)
    return {"dx": dy * (0.5 * (1.0 + t) + 0.5 * x * rise * slope)}


OP = Op(
    gelu_tanh_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("dy",), ("dx",), zeros=True),),
    algorithms={"rise": {"factors": lambda t: (1.0 - t) * (1.0 + t)}},
    summary="gradient of gelu_tanh",
)  # fmt: skip
