"""Op `scaled_matmul`: products of matrices of int8, times a scale for each row and one for each column."""

import math
from typing import Any

from oracles.formula.trace import Node, Outputs, dot
from oracles.op import Op
from oracles.operand import CODES, Flip, Operand


def scaled_matmul(scale_a: Node, a: Node, b: Node, scale_b: Node, bias: Node | None = None) -> Outputs:
    """c = (a b) scale_a scale_b + bias. The sums are whole numbers, which kernels add as integers."""
    count = dot(a, b, "k")
    scaled = count * scale_a * scale_b
    return {"c": scaled if bias is None else scaled + bias}


def like_a(scene: Any, stream: Any) -> Any:
    """numbers of the other matrix, so that both may have large ones alone"""
    others, shape = scene.values["a"].ravel(), scene.shape("b")
    which = stream.child("which").integers(math.prod(shape), 0, max(others.size, 1) - 1)
    return others[which].reshape(shape) if others.size else which.reshape(shape) * 0.0


OP = Op(
    scaled_matmul,
    inputs=(
        Operand("scale_a", "m"), Operand("a", "m k", dtype="int8", values=CODES),
        Operand("b", "k n", dtype="int8", values=f"{CODES} like_a"), Operand("scale_b", "n"),
        Operand("bias", "n", optional=True),
    ),
    outputs=(Operand("c", "m n"),),
    algorithms={"scaled": {
        "column first": lambda count, scale_a, scale_b: count * scale_b * scale_a,
        "scales first": lambda count, scale_a, scale_b: count * (scale_a * scale_b),
    }},
    recipes={"like_a": like_a}, flips=(Flip(("scale_a", "bias"), ("c",), zeros=True),),
    scaling={"scale_a": 1, "bias": 1, "c": 1},
    shapes=(
        {"k": 64, "n": 64}, {"k": 128, "n": 96}, {"m": 1, "k": 4096}, {"k": 2048, "n": 8}, {"m": 77, "k": 80},
        {"k": 1030},
    ),
    summary="products of matrices of int8, times scales of rows and columns, with a bias",
)  # fmt: skip
