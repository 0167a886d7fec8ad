"""Op `conv1d`: a causal convolution of each channel with a few taps, perhaps followed by silu, as in Mamba."""

from oracles.formula.trace import Node, Outputs, dot, exp, extent, position, sigmoid, take, where
from oracles.op import Op
from oracles.operand import Operand, Parameter


def conv1d(x: Node, weight: Node, bias: Node | None = None, *, silu: Node | float = 0.0) -> Outputs:
    """z(i) = bias + sum over k of weight(k) x(i + k - (taps - 1)), where x is 0 before place 0. y = z, or z sigmoid(z)
    with silu = 1."""
    taps = take(x, position("n") + position("k") - (extent("k") - 1.0), "n", 0.0)
    mixed = dot(taps, weight, "k")
    z = mixed if bias is None else mixed + bias
    gate = sigmoid(z)
    return {"y": where(silu >= 0.5, z * gate, z)}


CONV1D = Op(
    conv1d,
    inputs=(Operand("x", "... c n"), Operand("weight", "c k"), Operand("bias", "c", optional=True)),
    outputs=(Operand("y", "... c n"),),
    parameters=(Parameter("silu", (0.0, 1.0), neutral=0.0, least=0.0),),
    algorithms={"gate": {"quotient": lambda z: 1.0 / (1.0 + exp(-z))}},
    least={"k": 1},
    shapes=({"k": 4}, {"k": 4, "c": 64}, {"k": 3}, {"k": 2, "c": 96}),
    summary="causal convolutions of each channel, with a bias, and silu of them",
)  # fmt: skip
