"""Op `quantize_mxfp8`: rows as floats of 8 bits, each block of 32 of which has a power of two as its scale."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, elementary, extent, floor, greatest, log2, point, position, take, where
from oracles.op import Op
from oracles.operand import Operand, Parameter

INF = float("inf")
BLOCK = 32.0
MOST = 448.0
"""The largest number of e4m3fn."""
LEFT = 2.0**7
"""Half of the largest power of two in it."""
CARRY = 1.9375
"""From so many of a power of two on its 3 bits of mantissa are rounded to the next one."""
LEAST = 2.0**-120
"""`LEFT` times the smallest scale, whose exponent is stored as 0."""
X = Operand("x", "... n", values="blocked")
RULE = Parameter("scale_rule", (0.0, 1.0, 2.0, 3.0), neutral=0.0, least=0.0)
OF_INFINITY = Parameter("of_infinity", (254.0, 247.0, 255.0), neutral=254.0, least=0.0)


def quantize_mxfp8(x: Node, *, scale_rule: Node | float = 0.0, of_infinity: Node | float = 254.0) -> Outputs:
    """q = x / s, from -448 to 448, and scale = 127 + log2(s), for each 32 elements of a row and what is left of it. s
    follows from the largest magnitude m: 2^floor(log2(m)) / 256; with scale_rule = 1 as of m rounded to 4 bits, with 2
    2^ceil(log2(m)) / 256, with 3 2^ceil(log2(m / 448)); 2^-127 at least, as of zeros. Of a NaN scale is 255 and q NaN;
    of an infinity scale is of_infinity, which is 254, 247, or 255 with a NaN as q."""
    b = position("b", floor((extent("n") + (BLOCK - 1.0)) / BLOCK))
    most = greatest(take(abs(x), BLOCK * b + position("j", BLOCK), "n", 0.0), "j")
    unit = unit_of(most, scale_rule)
    own = floor(position("n") / BLOCK)
    # What the unit lacks to the scale comes last: so no step leaves the normal numbers where a code depends on it.
    quotient = x / take(unit, own, "b")
    infinite = where(of_infinity >= 254.5, float("nan"), where(of_infinity >= 253.5, 2.0**127, 2.0**120))
    ratio = where(take(most, own, "b") >= INF, x / infinite, point(quotient) * LEFT)
    size = point(ratio)
    high = where(size > MOST, MOST, size)
    exponent = elementary("round")(log2(where(most < INF, unit, 1.0))) + 120.0
    endless = where(of_infinity >= 254.5, 255.0, where(of_infinity >= 253.5, 254.0, 247.0))
    code = where(most < INF, exponent, where(most >= INF, endless, 255.0))
    return {"q": where(high < -MOST, -MOST, high), "scale": code}


def unit_of(most: Node, scale_rule: Node | float) -> Node:
    """2^7 times the scale of a block, given its largest magnitude."""
    power = elementary("binade")(most)
    edge = CARRY * power
    rises = where(scale_rule >= 1.5, power < most, where(scale_rule >= 0.5, point(edge) <= most, 0.0))
    share = most / MOST
    rest = point(share)
    below = elementary("binade")(rest)
    found = where(scale_rule >= 2.5, below * where(below < rest, 2.0 * LEFT, LEFT), where(rises, power, 0.5 * power))
    return where(found < LEAST, LEAST, found)


OP = Op(
    quantize_mxfp8, inputs=(X,),
    outputs=(Operand("q", "... n", dtype="e4m3fn"), Operand("scale", "... b", dtype="uint8")),
    parameters=(RULE, OF_INFINITY), least={"n": 1},
    algorithms={"share": {"reciprocal": lambda most: most * (1.0 / MOST)}},
    summary="rows as floats of 8 bits, and powers of two that scale blocks of them",
)  # fmt: skip
