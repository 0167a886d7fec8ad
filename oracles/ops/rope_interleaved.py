"""Op `rope_interleaved`: rotary embedding that pairs each element at an even place with the one behind it."""

from oracles.formula.trace import Node, Outputs, position, take, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.rope import COS, RECIPES, SIN

X, Y = (Operand(name, "... t w r two") for name in ("x", "y"))
"""The elements of a head are w pieces of r pairs each: the first piece is rotated, any others stay."""


def rope_interleaved(x: Node, cos: Node, sin: Node) -> Outputs:
    """With the pairs (a, b) of what is rotated: y = (a cos - b sin, b cos + a sin), and the rest of x behind them."""
    return {"y": rotated(x, cos, sin)}


def rotated(x: Node, cos: Node, sin: Node) -> Node:
    """Return all pairs, and the elements after them."""
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
