"""Op `dequantize_matmul`: products with a matrix of int8, in which each group of elements has a scale."""

from oracles.formula.trace import Node, Outputs, dot, point, total
from oracles.op import Op
from oracles.operand import CODES, Flip, Operand

GROUPS = ("g", "k")
"""A row has g groups of k elements, each with a scale."""


def dequantize_matmul(x: Node, q: Node, scale: Node) -> Outputs:
    """c = x w, w = q scale, with a scale for each group of a row of q. w may be rounded before it is multiplied."""
    w = q * scale
    c = dot(point(x), point(w), GROUPS)
    return {"c": c}


OP = Op(
    dequantize_matmul,
    inputs=(
        Operand("x", "m g k"), Operand("q", "n g k", dtype="int8", values=CODES),
        Operand("scale", "n g", values="factor", dtype="f32"),
    ),
    outputs=(Operand("c", "m n"),),
    algorithms={"c": {"by groups": lambda x, q, scale: total(dot(x, q, "k") * scale, "g")}},
    flips=(Flip(("x",), ("c",), zeros=True),), scaling={"x": 1, "c": 1},
    shapes=({"m": 1, "g": 8, "k": 32}, {"g": 4, "k": 64}, {"g": 2, "k": 128}, {"g": 1, "k": 1024}),
    summary="products with a matrix of int8, groups of which have scales of their own",
)  # fmt: skip
