"""Op `matmul`: products of matrices, with an optional bias for each column and an optional relu."""

from oracles.formula.trace import Node, Outputs, dot, point, where
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter


def matmul(a: Node, b: Node, bias: Node | None = None, *, relu: Node | float = 0.0) -> Outputs:
    """c = a b + bias. With relu = 1 results that are not positive are 0, but NaN stays. If k = 0, a b is 0."""
    product = dot(point(a), point(b), "k")
    z = product if bias is None else product + bias
    return {"c": where((z <= 0.0) & (relu >= 0.5), 0.0, z)}


OP = Op(
    matmul,
    inputs=(Operand("a", "... m k"), Operand("b", "... k n"), Operand("bias", "n", optional=True)),
    outputs=(Operand("c", "... m n"),),
    parameters=(Parameter("relu", (0.0, 1.0), neutral=0.0, least=0.0),),
    flips=(Flip(("a", "b"), ()),),
    scaling={"a": 1, "bias": 1, "c": 1},
    shapes=(
        {"k": 64, "n": 64}, {"k": 128, "n": 128}, {"k": 256, "n": 96}, {"m": 1, "k": 1024}, {"m": 1, "n": 768},
        {"k": 80, "n": 77}, {"m": 77, "k": 64},
    ),
    summary="products of matrices, with a bias, and negative ones as zeros",
)  # fmt: skip
