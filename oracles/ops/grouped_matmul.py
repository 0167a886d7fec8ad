"""Op `grouped_matmul`: one product of matrices for each group of terms, as for the gradients of experts."""

from oracles.formula.trace import Node, Outputs, dot, point, position, take, where
from oracles.op import Op
from oracles.operand import ENDS, Flip, Operand


def grouped_matmul(a: Node, b: Node, offs: Node, collected: Node | None = None) -> Outputs:
    """c[g] = collected[g] + the sum of a[m, k] b[k, n] over the terms k of group g, which are offs[g - 1] (0 for the
    first group) to offs[g] - 1. A group without terms has a sum of 0. A NaN in one group changes no other group, and
    terms from the last end on belong to no group."""
    first = take(offs, position("g") - 1.0, "g", 0.0)
    own = (first <= position("k")) & (position("k") < offs)
    left, right = where(own, a, 0.0), where(own, b, 0.0)
    product = dot(point(left), point(right), "k")
    return {"c": product if collected is None else collected + product}


OP = Op(
    grouped_matmul,
    inputs=(
        Operand("a", "m k"), Operand("b", "k n"), Operand("offs", "g", dtype="int32", index="k", values=ENDS),
        Operand("collected", "g m n", optional=True),
    ),
    outputs=(Operand("c", "g m n"),), aliases=(("c", "collected"),),
    flips=(Flip(("a", "collected"), ("c",), zeros=True),), scaling={"a": 1, "collected": 1, "c": 1},
    shapes=({"g": 8, "m": 4}, {"g": 4, "k": 128}, {"g": 2, "m": 17, "n": 33}, {"g": 3, "m": 1, "k": 65}),
    summary="products of matrices, one for each group of terms; a group may have none",
)  # fmt: skip
