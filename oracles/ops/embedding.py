"""Rows of a table by their index; and the gradient with respect to the table, added to a previous gradient."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, position, take, total, where
from oracles.op import Op
from oracles.operand import Flip, Operand

PADDING = -1
INDEX = Operand("index", "t", dtype="int64", index="v", missing=PADDING)


def embedding(table: Node, index: Node) -> Outputs:
    """y = table[index], and 0 where the index is -1."""
    return {"y": take(table, index, "v", 0.0)}


EMBEDDING = Op(
    embedding, inputs=(Operand("table", "v d"), INDEX), outputs=(Operand("y", "t d"),), scaling={"table": 1, "y": 1},
    shapes=({"d": 64}, {"d": 128}, {"d": 768}), summary="rows of a table, by their places",
)  # fmt: skip


def embedding_backward(collected: Node, dy: Node, index: Node) -> Outputs:
    """dtable[i] = collected[i] + the sum of all rows of dy whose index is i."""
    own = where(index == position("v"), dy, 0.0)
    summed = total(own, "t")
    return {"dtable": collected + summed}


EMBEDDING_BACKWARD = Op(
    embedding_backward,
    inputs=(Operand("collected", "v d"), Operand("dy", "t d", values="gradient"), INDEX),
    outputs=(Operand("dtable", "v d"),), aliases=(("dtable", "collected"),),
    flips=(Flip(("collected", "dy"), ("dtable",), zeros=True),), scaling={"collected": 1, "dy": 1, "dtable": 1},
    summary="gradient of embedding by its table, added to what was collected before",
)  # fmt: skip
