"""Op `grouped_rows_matmul`: rows times matrices, with one matrix for each group of rows, as for experts."""

from oracles.formula.trace import Node, Outputs, dot, greatest, point, position, take, where
from oracles.op import Op
from oracles.operand import ENDS, Flip, Operand


def grouped_rows_matmul(a: Node, b: Node, offs: Node, bias: Node | None = None) -> Outputs:
    """c[m, n] = the sum of a[m, k] b[g, k, n] over k, plus bias[g, n], where g is the group of row m: the first with
    offs[g] > m. A group whose end is not after the previous end has no rows. Rows from the last end on belong to no
    group, and are 0."""
    # The number of groups that end before a row, by a maximum, which is exact; a sum of flags may round.
    group = greatest(where(offs <= position("m"), position("g") + 1.0, 0.0), "g")
    left = where(position("m") < greatest(offs, "g"), a, 0.0)
    product = dot(point(left), take(b, group, "g", 0.0), "k")
    return {"c": product if bias is None else product + take(bias, group, "g", 0.0)}


OP = Op(
    grouped_rows_matmul,
    inputs=(
        Operand("a", "m k"), Operand("b", "g k n"), Operand("offs", "g", dtype="int32", index="m", values=ENDS),
        Operand("bias", "g n", optional=True),
    ),
    outputs=(Operand("c", "m n"),),
    flips=(Flip(("a", "bias"), ("c",), zeros=True),), scaling={"a": 1, "bias": 1, "c": 1},
    shapes=({"g": 8, "k": 4}, {"g": 4, "m": 128}, {"g": 2, "k": 17, "n": 33}, {"g": 3, "n": 1, "m": 65}),
    summary="rows times the matrix of their group; a group may have none",
)  # fmt: skip
