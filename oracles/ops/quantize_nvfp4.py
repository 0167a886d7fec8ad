"""Op `quantize_nvfp4`: rows as floats of 4 bits, two in a byte, in which each block of 16 has a scale of 8 bits."""

from __future__ import annotations

from typing import Any

from oracles.formula.trace import Node, Outputs, elementary, extent, floor, greatest, point, position, take, where
from oracles.op import Op
from oracles.operand import Operand, Parameter

INF = float("inf")
BLOCK = 16.0
MOST = 6.0
"""The largest number of e2m1."""
MOST_SCALE = 448.0
"""The largest number of e4m3fn."""
LEAST_NORMAL = 2.0**-6
"""The smallest normal number of e4m3fn. The spacing of numbers below it is that just above it."""
SPACING = 2.0**-3
"""The spacing of e4m3fn at a number, divided by the power of two at or below the number."""
UNKNOWN = 512.0
"""A code that no byte holds: any code may be stored for NaN."""
X = Operand("x", "... n", values="blocked")
TENSOR_SCALE = Operand("tensor_scale", "", dtype="f32", values="positive fitting")
LEAST_SCALE = Parameter("least_scale", (0.0, LEAST_NORMAL), neutral=0.0, least=0.0)


def quantize_nvfp4(x: Node, tensor_scale: Node, *, least_scale: Node | float = 0.0) -> Outputs:
    """scale = m / 6 / tensor_scale, as a float of 8 bits limited to least_scale and 448, where m is the largest
    magnitude of a block of 16 elements of a row, the last perhaps shorter. Codes are x / (scale tensor_scale) as floats
    of 4 bits, limited to -6 and 6, or 0 where the scale is 0. Byte h holds the codes of elements 2 h and 2 h + 1 in its
    low and high 4 bits. The highest bit of a code is the sign, also of zeros. A block with a NaN has NaN as its scale,
    and any codes."""
    b = position("b", floor((extent("n") + (BLOCK - 1.0)) / BLOCK))
    most = greatest(take(abs(x), BLOCK * b + position("j", BLOCK), "n", 0.0), "j")
    share = most / MOST
    units = point(share) / tensor_scale
    scale = rounded(point(units), least_scale)
    return {"q": packed(x, tensor_scale, scale), "scale": scale}


def packed(x: Node, tensor_scale: Node, scale: Node) -> Node:
    """Return the bytes with the codes of pairs of elements, for these scales of blocks."""
    step = scale * tensor_scale
    own = floor(position("n") / BLOCK)
    ratio = x / take(point(step), own, "b")
    code = code_of(where(take(scale, own, "b") == 0.0, 0.0, abs(point(ratio)))) + where(is_negative(x), 8.0, 0.0)
    h = position("h", floor((extent("n") + 1.0) / 2.0))
    return take(code, 2.0 * h, "n") + 16.0 * take(code, 2.0 * h + 1.0, "n", 0.0)


def quantize_nvfp4_codes(x: Node, tensor_scale: Node, scale: Node) -> Outputs:
    """The codes for stored scales."""
    return {"q": packed(x, tensor_scale, scale)}


def rounded(value: Node, least_scale: Node | float) -> Node:
    """Return the nearest float of e4m3fn, half-way the even one, limited to `least_scale` and the largest."""
    low = where(value < least_scale, least_scale, value)
    bounded = where(low > MOST_SCALE, MOST_SCALE, low)
    power = elementary("binade")(bounded)
    spacing = SPACING * where(power < LEAST_NORMAL, LEAST_NORMAL, power)
    steps = bounded / spacing
    kept = elementary("round")(point(steps)) * spacing
    return point(kept)


def code_of(size: Node) -> Node:
    """Return the code, 0 to 7, of the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6; half-way the even code."""
    found = where(size > 0.25, 1.0, 0.0) + where(size >= 0.75, 1.0, 0.0) + where(size > 1.25, 1.0, 0.0)
    found = found + where(size >= 1.75, 1.0, 0.0) + where(size > 2.5, 1.0, 0.0) + where(size >= 3.5, 1.0, 0.0)
    return where(size >= 0.0, found + where(size > 5.0, 1.0, 0.0), UNKNOWN)


def is_negative(x: Node) -> Node:
    """Return the condition that the sign of x is set, also for zeros."""
    return where(x == 0.0, 1.0 / x, x) < 0.0


def fitting(scene: Any, stream: Any) -> Any:
    """the largest magnitude over 448 times 6, or that of a smaller or a larger tensor"""
    import numpy as np

    x = scene.values["x"]
    most = float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0)) or 1.0
    return np.reshape(
        most / (MOST * MOST_SCALE) * float(np.ldexp(1.0, stream.child("power").integers(1, -2, 2)[0])), ()
    )


Q, SCALE = Operand("q", "... h", dtype="uint8"), Operand("scale", "... b", dtype="e4m3fn")
RATIO = {"reciprocal": lambda x, step, own: x * (1.0 / take(point(step), own, "b"))}
QUANTIZE_NVFP4 = Op(
    quantize_nvfp4, inputs=(X, TENSOR_SCALE), outputs=(Q, SCALE), parameters=(LEAST_SCALE,), least={"n": 1},
    algorithms={
        "share": {"reciprocal": lambda most: most * (1.0 / MOST)},
        "units": {"reciprocal": lambda share, tensor_scale: point(share) * (1.0 / tensor_scale)},
        "ratio": RATIO,
    },
    from_returned=Op(
        quantize_nvfp4_codes, inputs=(X, TENSOR_SCALE, SCALE), outputs=(Q,), least={"n": 1}, algorithms={"ratio": RATIO}
    ),
    recipes={"fitting": fitting}, summary="rows as floats of 4 bits, and floats of 8 bits that scale blocks of them",
)  # fmt: skip
