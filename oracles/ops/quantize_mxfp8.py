"""Op `quantize_mxfp8`: rows as floats of 8 bits, in which each block of 32 has a power of two as its scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log2 as exponent_of

from oracles.formula.trace import Node, Outputs, elementary, extent, floor, greatest, log2, point, position, take, where
from oracles.op import Op
from oracles.operand import CODES, Operand, Parameter

INF = float("inf")
BLOCK = 32.0
X = Operand("x", "... n", values="blocked")
SCALE = Operand("scale", "... b", dtype="uint8")
LARGEST = 254.0
"""The largest stored exponent of a finite scale."""
UNKNOWN = 512.0
"""A code that no byte holds: any code may be stored if no scale is large enough."""
RULE = Parameter("scale_rule", (0.0, 1.0, 2.0, 3.0), neutral=0.0, least=0.0)


@dataclass(frozen=True)
class ElementFormat:
    """The format of the 8-bit floats in a block, relative to the block's scale."""

    most: float
    """The largest number of the format."""
    left: float
    """Half of the largest power of two in the format."""
    carry: float
    """The share of a power of two from which on a magnitude, rounded to the format's bits, is the next power."""

    @property
    def least(self) -> float:
        """`left` times the smallest scale, the one whose stored exponent is 0."""
        return self.left * 2.0**-127

    @property
    def endless(self) -> float:
        """The exponent that is stored if an infinite magnitude counts as 2^128."""
        return 254.0 - exponent_of(self.left)

    def of_infinity(self) -> Parameter:
        """Return the parameter for the stored exponent of an infinity: the largest, that of 2^128, or NaN's."""
        return Parameter("of_infinity", (254.0, self.endless, 255.0), neutral=254.0, least=0.0)

    def algorithms(self) -> Mapping[str, Mapping[str, Callable[..., Node]]]:
        """Return the algorithm that multiplies by the reciprocal of the largest number, in place of dividing by it."""
        return {"share": {"reciprocal": lambda most: most * (1.0 / self.most)}}


E4M3 = ElementFormat(448.0, 2.0**7, 1.9375)


def quantize_mxfp8(x: Node, *, scale_rule: Node | float = 0.0, of_infinity: Node | float = 254.0) -> Outputs:
    """q = x / s, limited to -448 and 448, and scale = 127 + log2(s), for each block of 32 elements of a row, the last
    perhaps shorter. s depends on the block's largest magnitude m: with scale_rule = 0 it is 2^floor(log2(m)) / 256,
    with 1 the same of m rounded to 4 bits, with 2 2^ceil(log2(m)) / 256, and with 3 2^ceil(log2(m / 448)); always at
    least 2^-127. A block with a NaN has scale 255 and q NaN. A block with an infinity has the scale of_infinity: 254,
    247, or 255 with q NaN. The scale is open if m is a number of f64 beyond all scales."""
    return quantized(x, scale_rule, of_infinity, E4M3)


def quantized(x: Node, scale_rule: Node | float, of_infinity: Node | float, element: ElementFormat) -> Outputs:
    """Return the codes of blocks, and their scales."""
    most = largest_of(x)
    unit = unit_of(most, scale_rule, element)
    own = floor(position("n") / BLOCK)
    # The unit is `left` times the scale: multiplying by `left` last keeps all steps in normal numbers.
    quotient = x / take(unit, own, "b")
    largest = where(of_infinity >= 253.5, 2.0**127, 2.0 ** (element.endless - 127.0))
    infinite = where(of_infinity >= 254.5, float("nan"), largest)
    ratio = where(take(most, own, "b") >= INF, x / infinite, point(quotient) * element.left)
    exponent = elementary("round")(log2(where(most < INF, unit, 1.0))) + (127.0 - exponent_of(element.left))
    endless = where(of_infinity >= 254.5, 255.0, where(of_infinity >= 253.5, 254.0, element.endless))
    held = where(exponent > LARGEST, UNKNOWN, exponent)
    code = where(most < INF, held, where(most >= INF, endless, 255.0))
    return {"q": cut(ratio, element), "scale": code}


def cut(ratio: Node, element: ElementFormat) -> Node:
    """Return a number divided by its scale, limited to the numbers of the format."""
    size = point(ratio)
    high = where(size > element.most, element.most, size)
    return where(high < -element.most, -element.most, high)


def quantize_mxfp8_codes(x: Node, scale: Node) -> Outputs:
    """The codes for stored scales."""
    return {"q": coded(x, scale, E4M3)}


def coded(x: Node, scale: Node, element: ElementFormat) -> Node:
    """Return the codes for stored scales. The scale, a power of two, divides in two steps, which stay in normal
    numbers. A block with an infinity may have the largest scale; scale 255 is NaN."""
    least = 127.0 - exponent_of(element.left)
    own = floor(position("n") / BLOCK)
    ends = where(largest_of(x) < INF, 0.0, scale > element.endless)
    above = where(ends, 0.0, scale - least)
    unit = elementary("binade")(1.5 * elementary("exp2")(above))
    quotient = x / take(unit, own, "b")
    infinite = where(take(scale, own, "b") >= 254.5, float("nan"), 2.0**127)
    ratio = where(take(ends, own, "b"), x / infinite, point(quotient) * element.left)
    return cut(ratio, element)


def largest_of(x: Node) -> Node:
    """Return the largest magnitude of each block."""
    b = position("b", floor((extent("n") + (BLOCK - 1.0)) / BLOCK))
    return greatest(take(abs(x), BLOCK * b + position("j", BLOCK), "n", 0.0), "j")


def codes(formula: Callable[..., Outputs], dtype: str) -> Op:
    """Return the op that calculates codes from stored scales."""
    stored = replace(SCALE, values=CODES)
    return Op(formula, inputs=(X, stored), outputs=(Operand("q", "... n", dtype=dtype),), least={"n": 1})


def unit_of(most: Node, scale_rule: Node | float, element: ElementFormat) -> Node:
    """Return `left` times the scale of a block with this largest magnitude."""
    power = elementary("binade")(most)
    edge = element.carry * power
    rises = where(scale_rule >= 1.5, power < most, where(scale_rule >= 0.5, point(edge) <= most, 0.0))
    share = most / element.most
    rest = point(share)
    below = elementary("binade")(rest)
    near = below * where(below < rest, 2.0 * element.left, element.left)
    found = where(scale_rule >= 2.5, near, where(rises, power, 0.5 * power))
    return where(found < element.least, element.least, found)


QUANTIZE_MXFP8 = Op(
    quantize_mxfp8, inputs=(X,), outputs=(Operand("q", "... n", dtype="e4m3fn"), SCALE),
    parameters=(RULE, E4M3.of_infinity()), least={"n": 1}, algorithms=E4M3.algorithms(),
    from_returned=codes(quantize_mxfp8_codes, "e4m3fn"),
    summary="rows as floats of 8 bits, and powers of two that scale blocks of them",
)  # fmt: skip


E5M2 = ElementFormat(57344.0, 2.0**14, 1.875)


def quantize_mxfp8_e5m2(x: Node, *, scale_rule: Node | float = 0.0, of_infinity: Node | float = 254.0) -> Outputs:
    """q = x / s, limited to -57344 and 57344, and scale = 127 + log2(s), for each block of 32 elements of a row, the
    last perhaps shorter. s depends on the block's largest magnitude m: with scale_rule = 0 it is 2^floor(log2(m)) /
    2^15, with 1 the same of m rounded to 3 bits, with 2 2^ceil(log2(m)) / 2^15, and with 3 2^ceil(log2(m / 57344));
    always at least 2^-127. A block with a NaN has scale 255 and q NaN. A block with an infinity has the scale
    of_infinity: 254, 240, or 255 with q NaN."""
    return quantized(x, scale_rule, of_infinity, E5M2)


def quantize_mxfp8_e5m2_codes(x: Node, scale: Node) -> Outputs:
    """The codes for stored scales."""
    return {"q": coded(x, scale, E5M2)}


QUANTIZE_MXFP8_E5M2 = Op(
    quantize_mxfp8_e5m2, inputs=(X,), outputs=(Operand("q", "... n", dtype="e5m2"), SCALE),
    parameters=(RULE, E5M2.of_infinity()), least={"n": 1}, algorithms=E5M2.algorithms(),
    from_returned=codes(quantize_mxfp8_e5m2_codes, "e5m2"),
    summary="rows as floats of 8 bits with 2 of mantissa, and powers of two that scale blocks of them",
)  # fmt: skip
