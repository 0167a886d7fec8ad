"""Op `embedding`: rows of a table, by their places."""

from oracles.formula.trace import Node, Outputs, take
from oracles.op import Op
from oracles.operand import Operand

PADDING = -1
INDEX = Operand("index", "t", dtype="int64", index="v", missing=PADDING)


def embedding(table: Node, index: Node) -> Outputs:
    """y = table[index], and 0 where the index is -1."""
    return {"y": take(table, index, "v", 0.0)}


OP = Op(
    embedding, inputs=(Operand("table", "v d"), INDEX), outputs=(Operand("y", "t d"),), scaling={"table": 1, "y": 1},
    shapes=({"d": 64}, {"d": 128}, {"d": 768}), summary="rows of a table, by their places",
)  # fmt: skip
