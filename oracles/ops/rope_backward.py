"""Op `rope_backward`: the gradient of `rope`, which turns the other way."""

from dataclasses import replace

from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.ops.rope import COS, RECIPES, SIN, X, Y, rotated
from oracles.ops.rope import OP as ROPE

DY = replace(X, name="dy")


def rope_backward(dy: Node, cos: Node, sin: Node) -> Outputs:
    """With halves a and b of dy: dx = (a cos + b sin, b cos - a sin), and the rest of dy behind them."""
    return {"dx": rotated(dy, cos, -sin)}


OP = Op(
    rope_backward, inputs=(DY, COS, SIN), outputs=(replace(Y, name="dx"),), aliases=(("dx", "dy"),), least={"w": 2},
    recipes=RECIPES, shapes=ROPE.shapes, summary="gradient of rope",
)  # fmt: skip
