"""Op `quantize_mxfp8`: rows as floats of 8 bits, each block of 32 of which has a power of two as its scale."""

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
"""The largest stored exponent of a number."""
UNKNOWN = 512.0
"""A code that no byte holds: any may be stored if no scale is large enough."""
RULE = Parameter("scale_rule", (0.0, 1.0, 2.0, 3.0), neutral=0.0, least=0.0)


@dataclass(frozen=True)
class ElementFormat:
    """A format of 8-bit floats, relative to the scale of its block."""

    most: float
    """The largest number."""
    left: float
    """Half of the largest power of two."""
    carry: float
    """From this share of a power of two on, magnitudes are rounded to the next one."""

    @property
    def least(self) -> float:
        """`left` times the smallest scale, whose exponent is stored as 0."""
        return self.left * 2.0**-127

    @property
    def endless(self) -> float:
        """The exponent that is stored if the largest magnitude is taken for 2^128."""
        return 254.0 - exponent_of(self.left)

    def of_infinity(self) -> Parameter:
        """Return the parameter for an infinity's stored exponent: the largest, 2^128's, or NaN's."""
        return Parameter("of_infinity", (254.0, self.endless, 255.0), neutral=254.0, least=0.0)

    def algorithms(self) -> Mapping[str, Mapping[str, Callable[..., Node]]]:
        """Return another way to the share of the largest number: times its reciprocal."""
        return {"share": {"reciprocal": lambda most: most * (1.0 / self.most)}}


E4M3 = ElementFormat(448.0, 2.0**7, 1.9375)


def quantize_mxfp8(x: Node, *, scale_rule: Node | float = 0.0, of_infinity: Node | float = 254.0) -> Outputs:
    """q = x / s, from -448 to 448, and scale = 127 + log2(s), for each 32 elements of a row and what is left of it. s
    follows from the largest magnitude m: 2^floor(log2(m)) / 256; with scale_rule = 1 as of m rounded to 4 bits, with 2
    2^ceil(log2(m)) / 256, with 3 2^ceil(log2(m / 448)); 2^-127 at least, as of zeros. Of a NaN scale is 255 and q NaN;
    of an infinity scale is of_infinity, which is 254, 247, or 255 with a NaN as q. Of what f64
    has beyond all scales it is anything."""
    return quantized(x, scale_rule, of_infinity, E4M3)


def quantized(x: Node, scale_rule: Node | float, of_infinity: Node | float, element: ElementFormat) -> Outputs:
    """The codes of blocks, and their scales."""
    most = largest_of(x)
    unit = unit_of(most, scale_rule, element)
    own = floor(position("n") / BLOCK)
    # What the unit lacks to the scale comes last, so that no step on which a code depends leaves the normal numbers.
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
    """The code of a number over its scale, as far as there is one."""
    size = point(ratio)
    high = where(size > element.most, element.most, size)
    return where(high < -element.most, -element.most, high)


def quantize_mxfp8_codes(x: Node, scale: Node) -> Outputs:
    """The codes by a scale that was stored."""
    return {"q": coded(x, scale, E4M3)}


def coded(x: Node, scale: Node, element: ElementFormat) -> Node:
    """Return the codes. The scale, a power of two, divides in two steps so that none leaves the normal numbers; a
    block with an infinity may have the largest scale, and 255 is NaN."""
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
    """The largest magnitude of each block."""
    b = position("b", floor((extent("n") + (BLOCK - 1.0)) / BLOCK))
    return greatest(take(abs(x), BLOCK * b + position("j", BLOCK), "n", 0.0), "j")


def codes(formula: Callable[..., Outputs], dtype: str) -> Op:
    """The op of codes by scales that were stored."""
    stored = replace(SCALE, values=CODES)
    return Op(formula, inputs=(X, stored), outputs=(Operand("q", "... n", dtype=dtype),), least={"n": 1})


def unit_of(most: Node, scale_rule: Node | float, element: ElementFormat) -> Node:
    """`left` times the scale of a block, given its largest magnitude."""
    power = elementary("binade")(most)
    edge = element.carry * power
    rises = where(scale_rule >= 1.5, power < most, where(scale_rule >= 0.5, point(edge) <= most, 0.0))
    share = most / element.most
    rest = point(share)
    below = elementary("binade")(rest)
    near = below * where(below < rest, 2.0 * element.left, element.left)
    found = where(scale_rule >= 2.5, near, where(rises, power, 0.5 * power))
    return where(found < element.least, element.least, found)


OP = Op(
    quantize_mxfp8, inputs=(X,), outputs=(Operand("q", "... n", dtype="e4m3fn"), SCALE),
    parameters=(RULE, E4M3.of_infinity()), least={"n": 1}, algorithms=E4M3.algorithms(),
    from_returned=codes(quantize_mxfp8_codes, "e4m3fn"),
    summary="rows as floats of 8 bits, and powers of two that scale blocks of them",
)  # fmt: skip
