"""Op `int4_matmul`: products with a matrix of 4-bit codes, two in a byte, in which each group has a scale."""

import math
from typing import Any

from oracles.formula.trace import Node, Outputs, dot, extent, floor, point, position, take, total, where
from oracles.op import Op
from oracles.operand import CODES, Operand

PAIRS = ("g", "h", "j")
"""A row has g groups of h pairs of elements: a byte has the first of a pair in its low 4 bits."""
MIDDLE = 8.0
"""The code that means 0 if no zero point is given, so that codes from 0 to 15 mean -8 to 7."""


def int4_matmul(x: Node, q: Node, scale: Node, zero_point: Node | None = None) -> Outputs:
    """c = x w, w = (code - zero point) scale. Each group of a row has a scale and a zero point, which is 8 if not
    given. Codes are 0 to 15: byte h of a group holds those of elements 2 h and 2 h + 1 in its low and high 4 bits. w
    may be rounded before it is multiplied."""
    # Plus half a code, so that no quotient lies at a step: dividing and shifting give the same code.
    above = floor((q + 0.5) / 16.0)
    low = q - 16.0 * above
    high = where(above < 0.0, above + 16.0, above)
    code = where(position("j", 2.0) == 0.0, low, high)
    offset = code - (MIDDLE if zero_point is None else zero_point)
    pair = take(x, 2.0 * position("h", extent("k") / 2.0) + position("j", 2.0), "k")
    w = offset * scale
    c = dot(point(pair), point(w), PAIRS)
    return {"c": c}


def nibbles(scene: Any, stream: Any) -> Any:
    """numbers from 0 to 15, as codes are"""
    shape = scene.shape("zero_point")
    return stream.child("nibble").integers(math.prod(shape), 0, 15).reshape(shape) * 1.0


OP = Op(
    int4_matmul,
    inputs=(
        Operand("x", "m g k"), Operand("q", "n g h", dtype="int8", values=CODES),
        Operand("scale", "n g", values="factor", dtype="f32"),
        Operand("zero_point", "n g", optional=True, dtype="int8", values=f"{CODES} nibbles"),
    ),
    outputs=(Operand("c", "m n"),),
    algorithms={"c": {"by groups": lambda pair, offset, scale: total(dot(pair, offset, ("h", "j")) * scale, "g")}},
    shapes=({"m": 1, "g": 8, "k": 32}, {"g": 4, "k": 64}, {"g": 2, "k": 128}, {"g": 1, "k": 1024}),
    recipes={"nibbles": nibbles},
    summary="products with a matrix of 4-bit codes, groups of which have scales and zero points",
)  # fmt: skip
