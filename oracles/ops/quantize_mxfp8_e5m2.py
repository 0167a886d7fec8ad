"""Op `quantize_mxfp8_e5m2`: as `quantize_mxfp8`, but with e5m2, floats of 8 bits with 5 bits of exponent."""

from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.quantize_mxfp8 import RULE, SCALE, ElementFormat, X, coded, codes, quantized

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


OP = Op(
    quantize_mxfp8_e5m2, inputs=(X,), outputs=(Operand("q", "... n", dtype="e5m2"), SCALE),
    parameters=(RULE, E5M2.of_infinity()), least={"n": 1}, algorithms=E5M2.algorithms(),
    from_returned=codes(quantize_mxfp8_e5m2_codes, "e5m2"),
    summary="rows as floats of 8 bits with 2 of mantissa, and powers of two that scale blocks of them",
)  # fmt: skip
