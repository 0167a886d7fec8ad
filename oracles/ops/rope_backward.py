"""Op `rope_backward`: the gradient of `rope`, which rotates in the opposite direction."""

from dataclasses import replace

from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.ops.rope import COS, RECIPES, SIN, X, Y, rotated
from oracles.ops.rope import OP as ROPE

DY = replace(X, name="dy")


def rope_backward(dy: Node, cos: Node, sin: Node) -> Outputs:
    """dx = (a cos + b sin, b cos - a sin) for the first two pieces a and b of dy, followed by the others of dy."""
    return {"dx": rotated(dy, cos, -sin)}


OP = Op(
    rope_backward, inputs=(DY, COS, SIN), outputs=(replace(Y, name="dx"),), aliases=(("dx", "dy"),), least={"w": 2},
    recipes=RECIPES, shapes=ROPE.shapes, summary="gradient of rope",
)  # fmt: skip
