"""Op `rope`: rotary embedding that pairs an element of the first half with its like of the second."""

from __future__ import annotations

from typing import Any

from oracles.formula.trace import Node, Outputs, position, take, where
from oracles.op import Op
from oracles.operand import Operand

COS, SIN = (
    Operand(name, "t r", values=values) for name, values in (("cos", "factor cosines"), ("sin", "factor sines"))
)
"""A row for each position, for all heads and batches."""
X, Y = (Operand(name, "... t w r") for name in ("x", "y"))
"""The elements of a head are w pieces of r each: the first two are rotated, any others stay."""
BASE = 10_000.0


def rope(x: Node, cos: Node, sin: Node) -> Outputs:
    """With halves a and b of what is rotated: y = (a cos - b sin, b cos + a sin), and the rest of x behind them."""
    return {"y": rotated(x, cos, sin)}


def rotated(x: Node, cos: Node, sin: Node) -> Node:
    """Return both halves, and the elements after them."""
    piece = position("w")
    other = take(x, 1.0 - piece, "w", 0.0)
    turned = x * cos + where(piece < 1.0, -other, other) * sin
    return where(piece < 2.0, turned, x)


def _of_angles(function: str) -> Any:
    """A recipe: what becomes of the angles of the positions from 0 on."""

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
