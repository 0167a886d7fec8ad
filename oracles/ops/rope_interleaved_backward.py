"""Op `rope_interleaved_backward`: the gradient of `rope_interleaved`, which rotates in the opposite direction."""

from dataclasses import replace

from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.ops.rope import COS, RECIPES, SIN
from oracles.ops.rope_interleaved import OP as ROPE
from oracles.ops.rope_interleaved import X, Y, rotated

DY = replace(X, name="dy")


def rope_interleaved_backward(dy: Node, cos: Node, sin: Node) -> Outputs:
    """dx = (a cos + b sin, b cos - a sin) for the pairs (a, b) of dy's first piece, followed by the others of dy."""
    return {"dx": rotated(dy, cos, -sin)}


OP = Op(
    rope_interleaved_backward, inputs=(DY, COS, SIN), outputs=(replace(Y, name="dx"),), aliases=(("dx", "dy"),),
    fixed={"two": 2}, recipes=RECIPES, shapes=ROPE.shapes, summary="gradient of rope_interleaved",
)  # fmt: skip
