"""Rotary embedding, of halves of a head or of pairs of neighbours; and the gradients, which turn the other way."""

from __future__ import annotations

from dataclasses import replace
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
ROPE = Op(
    rope, inputs=(X, COS, SIN), outputs=(Y,), aliases=(("y", "x"),), least={"w": 2}, recipes=RECIPES,
    shapes=({"t": 2055, "w": 2, "r": 1}, {"t": 260, "w": 2, "r": 2}, {"w": 2, "r": 32},
            {"w": 2, "r": 40}, {"w": 2, "r": 64}, {"w": 4, "r": 16}),
    summary="halves of the elements of each head, rotated by angles that follow from the position",
)  # fmt: skip


DY = replace(X, name="dy")


def rope_backward(dy: Node, cos: Node, sin: Node) -> Outputs:
    """dx = (a cos + b sin, b cos - a sin) for the first two pieces a and b of dy, followed by the others of dy."""
    return {"dx": rotated(dy, cos, -sin)}


ROPE_BACKWARD = Op(
    rope_backward, inputs=(DY, COS, SIN), outputs=(replace(Y, name="dx"),), aliases=(("dx", "dy"),), least={"w": 2},
    recipes=RECIPES, shapes=ROPE.shapes, summary="gradient of rope",
)  # fmt: skip


PAIRS, TURNED = (Operand(name, "... t w r two") for name in ("x", "y"))
"""A head has w pieces of r pairs of elements: the first piece is rotated, others are copied."""


def rope_interleaved(x: Node, cos: Node, sin: Node) -> Outputs:
    """y = (a cos - b sin, b cos + a sin) for the pairs (a, b) of x's first piece, followed by the other pieces of x."""
    return {"y": rotated_pairs(x, cos, sin)}


def rotated_pairs(x: Node, cos: Node, sin: Node) -> Node:
    """Return the rotated pairs, followed by the other elements."""
    side = position("two")
    other = take(x, 1.0 - side, "two")
    turned = x * cos + where(side < 1.0, -other, other) * sin
    return where(position("w") < 1.0, turned, x)


ROPE_INTERLEAVED = Op(
    rope_interleaved, inputs=(PAIRS, COS, SIN), outputs=(TURNED,), aliases=(("y", "x"),), fixed={"two": 2},
    recipes=RECIPES,
    shapes=({"t": 2055, "w": 1, "r": 1}, {"t": 260, "w": 1, "r": 2}, {"w": 1, "r": 32},
            {"w": 1, "r": 40}, {"w": 1, "r": 64}, {"w": 2, "r": 16}),
    summary="neighbours in each head, rotated by angles that follow from the position",
)  # fmt: skip


DPAIRS = replace(PAIRS, name="dy")


def rope_interleaved_backward(dy: Node, cos: Node, sin: Node) -> Outputs:
    """dx = (a cos + b sin, b cos - a sin) for the pairs (a, b) of dy's first piece, followed by the others of dy."""
    return {"dx": rotated_pairs(dy, cos, -sin)}


ROPE_INTERLEAVED_BACKWARD = Op(
    rope_interleaved_backward, inputs=(DPAIRS, COS, SIN), outputs=(replace(TURNED, name="dx"),),
    aliases=(("dx", "dy"),), fixed={"two": 2}, recipes=RECIPES, shapes=ROPE_INTERLEAVED.shapes,
    summary="gradient of rope_interleaved",
)  # fmt: skip
