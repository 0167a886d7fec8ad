"""Op `embedding_backward`: the gradient of `embedding` with respect to its table, added to a previous gradient."""

from oracles.formula.trace import Node, Outputs, position, total, where
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.embedding import INDEX


def embedding_backward(collected: Node, dy: Node, index: Node) -> Outputs:
    """dtable[i] = collected[i] + the sum of all rows of dy whose index is i."""
    own = where(index == position("v"), dy, 0.0)
    summed = total(own, "t")
    return {"dtable": collected + summed}


OP = Op(
    embedding_backward,
    inputs=(Operand("collected", "v d"), Operand("dy", "t d", values="gradient"), INDEX),
    outputs=(Operand("dtable", "v d"),), aliases=(("dtable", "collected"),),
    flips=(Flip(("collected", "dy"), ("dtable",), zeros=True),), scaling={"collected": 1, "dy": 1, "dtable": 1},
    summary="gradient of embedding by its table, added to what was collected before",
)  # fmt: skip
