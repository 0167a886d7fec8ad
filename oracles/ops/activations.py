"""Activations, elementwise: the Gaussian error linear unit, also without the error function, and one tensor gated by
another one, as in SwiGLU; and the gradients."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, erf, exp, point, sigmoid, tanh
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import DX, DY, X

Y = Operand("y", "... n")
ROOT_HALF = 0.7071067811865476
"""sqrt(1/2)."""


def gelu(x: Node) -> Outputs:
    """y = x (1 + erf(x / sqrt(2))) / 2."""
    twice = 1.0 + erf(x * ROOT_HALF)
    return {"y": 0.5 * x * twice}


GELU = Op(
    gelu, inputs=(X,), outputs=(Y,), aliases=(("y", "x"),),
    algorithms={"y": {"half last": lambda x, twice: x * twice * 0.5, "half first": lambda x, twice: x * (0.5 * twice)}},
    summary="x times the normal distribution function of x",
)  # fmt: skip


ROOT_OF_HALF_TURN = 0.3989422804014327
"""1 / sqrt(2 pi)."""


def gelu_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy (cdf + x pdf), cdf = (1 + erf(x / sqrt(2))) / 2, pdf = exp(-x^2 / 2) / sqrt(2 pi)."""
    cdf = 0.5 * (1.0 + erf(x * ROOT_HALF))
    pdf = exp(x * x * -0.5) * ROOT_OF_HALF_TURN
    return {"dx": dy * (cdf + x * pdf)}


GELU_BACKWARD = Op(
    gelu_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("dy",), ("dx",), zeros=True),), summary="gradient of gelu",
)  # fmt: skip


ROOT = 0.7978845608028654
"""sqrt(2 / pi)."""
CUBIC = 0.044715


def gelu_tanh(x: Node) -> Outputs:
    """y = x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    u = ROOT * (x + CUBIC * (x * x * x))
    twice = 1.0 + tanh(u)
    return {"y": 0.5 * x * twice}


GELU_TANH = Op(
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


def gelu_tanh_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy ((1 + t) / 2 + x (1 - t^2) u' / 2), t = tanh(u), u' = sqrt(2 / pi) (1 + 3 0.044715 x^2)."""
    square = x * x
    t = tanh(ROOT * (x + CUBIC * (square * x)))
    rise = 1.0 - t * t
    slope = ROOT * (1.0 + 3.0 * CUBIC * square)
    return {"dx": dy * (0.5 * (1.0 + t) + 0.5 * x * rise * slope)}


GELU_TANH_BACKWARD = Op(
    gelu_tanh_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("dy",), ("dx",), zeros=True),),
    algorithms={"rise": {"factors": lambda t: (1.0 - t) * (1.0 + t)}},
    summary="gradient of gelu_tanh",
)  # fmt: skip


GATE, UP = Operand("gate", "... n"), Operand("up", "... n")
# If the exponential overflows, the quotient is 0, as the sigmoid is.
SIGMOID = {"quotient": lambda gate: 1.0 / (1.0 + exp(-gate))}
QUOTIENT = {"quotient": lambda gate: gate / (1.0 + exp(-gate))}


def silu_mul(gate: Node, up: Node) -> Outputs:
    """y = h up, h = gate sigmoid(gate). h may be rounded before it is multiplied."""
    s = sigmoid(gate)
    h = gate * s
    return {"y": point(h) * up}


SILU_MUL = Op(
    silu_mul, inputs=(GATE, UP), outputs=(Operand("y", "... n"),), aliases=(("y", "gate"), ("y", "up")),
    flips=(Flip(("up",), ("y",)),), algorithms={"s": SIGMOID, "h": QUOTIENT},
    summary="silu of one tensor, times another one",
)  # fmt: skip


def silu_mul_backward(gate: Node, up: Node, dy: Node) -> Outputs:
    """dup = dy gate s and dgate = dy up s (1 + gate (1 - s)), s = sigmoid(gate)."""
    s = sigmoid(gate)
    h = gate * s
    slope = s * (1.0 + gate * (1.0 - s))
    dgate = dy * up * slope
    return {"dgate": dgate, "dup": dy * point(h)}


SILU_MUL_BACKWARD = Op(
    silu_mul_backward, inputs=(GATE, UP, DY), outputs=(Operand("dgate", "... n"), Operand("dup", "... n")),
    aliases=(("dgate", "gate"), ("dup", "up")),
    flips=(Flip(("dy",), ("dgate", "dup"), zeros=True), Flip(("up",), ("dgate",), zeros=True)),
    algorithms={
        "s": SIGMOID,
        "h": QUOTIENT,
        "slope": {"sum": lambda s, h: h * (1.0 - s) + s},
        "dgate": {"slope first": lambda up, dy, slope: dy * slope * up,
                  "slope last": lambda up, dy, slope: dy * (up * slope)},
    },
    summary="gradients of silu_mul by both tensors",
)  # fmt: skip
