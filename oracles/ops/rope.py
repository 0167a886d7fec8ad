"""Op `rope`: rotary embedding of pairs of elements at the same place in the first and in the second half."""

from __future__ import annotations

from typing import Any

from oracles.formula.trace import Node, Outputs, position, take, where
from oracles.op import Op
from oracles.operand import Operand

COS, SIN = (
    Operand(name, "t r", values=values) for name, values in (("cos", "factor cosines"), ("sin", "factor sines"))
)
"""One row for each position, used by all heads and batches."""
X, Y = (Operand(name, "... t w r") for name in ("x", "y"))
"""A head has w pieces of r elements: the first two pieces are rotated, others are copied."""
BASE = 10_000.0


def rope(x: Node, cos: Node, sin: Node) -> Outputs:
    """y = (a cos - b sin, b cos + a sin) for the first two pieces a and b of x, followed by the other pieces of x."""
    return {"y": rotated(x, cos, sin)}


def rotated(x: Node, cos: Node, sin: Node) -> Node:
    """Return the two rotated pieces, followed by the other elements."""
    piece = position("w")
    other = take(x, 1.0 - piece, "w", 0.0)
    turned = x * cos + where(piece < 1.0, -other, other) * sin
    return where(piece < 2.0, turned, x)


def _of_angles(function: str) -> Any:
    """Return a recipe for a function, cosine or sine, of the angles of positions 0, 1, 2, ..."""

    def recipe(scene: Any, stream: Any) -> Any:
        import numpy as np

        places, pairs = scene.shape("cos")
        angles = np.outer(np.arange(places), BASE ** -(np.arange(pairs) / max(pairs, 1)))
        return getattr(np, function)(angles)

    return recipe


RECIPES = {"cosines": _of_angles("cos"), "sines": _of_angles("sin")}
OP = Op(
    rope, inputs=(X, COS, SIN), outputs=(Y,), aliases=(("y", "x"),), least={"w": 2}, recipes=RECIPES,
    shapes=({"t": 2055, "w": 2, "r": 1}, {"t": 260, "w": 2, "r": 2}, {"w": 2, "r": 32},
            {"w": 2, "r": 40}, {"w": 2, "r": 64}, {"w": 4, "r": 16}),
    summary="halves of the elements of each head, rotated by angles that follow from the position",
)  # fmt: skip
