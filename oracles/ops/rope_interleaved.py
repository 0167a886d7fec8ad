"""Op `rope_interleaved`: rotary embedding of pairs of neighbours, the first at an even place."""

from oracles.formula.trace import Node, Outputs, position, take, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.rope import COS, RECIPES, SIN

X, Y = (Operand(name, "... t w r two") for name in ("x", "y"))
"""A head has w pieces of r pairs of elements: the first piece is rotated, others are copied."""


def rope_interleaved(x: Node, cos: Node, sin: Node) -> Outputs:
    """y = (a cos - b sin, b cos + a sin) for the pairs (a, b) of x's first piece, followed by the other pieces of x."""
    return {"y": rotated(x, cos, sin)}


def rotated(x: Node, cos: Node, sin: Node) -> Node:
    """Return the rotated pairs, followed by the other elements."""
    side = position("two")
    other = take(x, 1.0 - side, "two")
    turned = x * cos + where(side < 1.0, -other, other) * sin
    return where(position("w") < 1.0, turned, x)


OP = Op(
    rope_interleaved, inputs=(X, COS, SIN), outputs=(Y,), aliases=(("y", "x"),), fixed={"two": 2}, recipes=RECIPES,
    shapes=({"t": 2055, "w": 1, "r": 1}, {"t": 260, "w": 1, "r": 2}, {"w": 1, "r": 32},
            {"w": 1, "r": 40}, {"w": 1, "r": 64}, {"w": 2, "r": 16}),
    summary="neighbours in each head, rotated by angles that follow from the position",
)  # fmt: skip
