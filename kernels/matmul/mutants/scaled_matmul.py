"""Planted defects in scaled_matmul, modelled on documented bugs of products of quantised matrices."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_TERM = "sum += (int32_t)left[i * a->strides[1]] * right[i * b->strides[0]];"
_COUNT = "(float)count(a, b, m, n) * row * load(&call->scale_b, n * call->scale_b.strides[0])"
_BIAS = "z += load(&call->bias, n * call->bias.strides[0]);"


def _pairs(sum_of_two: str) -> str:
    """Two terms at a time, which are joined in 16 bits."""
    return f"""{{
        int32_t two = (int32_t)left[i * a->strides[1]] * right[i * b->strides[0]];
        if (++i < a->shape[1]) two += (int32_t)left[i * a->strides[1]] * right[i * b->strides[0]];
        sum += {sum_of_two};
    }}"""


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "scaled-matmul-pairs-saturate", "scaled-matmul-generic",
        ((_TERM, _pairs("two > 32767 ? 32767 : two < -32768 ? -32768 : two")),),
        _NATIVE, "two neighbouring products of -128 and -128", _VALUE, "two products added in 16 bits, which saturate",
    ),
    Mutant(
        "scaled-matmul-sums-in-16-bits", "scaled-matmul-generic",
        (("int32_t sum = 0;", "int16_t sum = 0;"),),
        _NATIVE, "sums of more than 16 bits", _VALUE, "an accumulator of 16 bits, which wraps",
    ),
    Mutant(
        "scaled-matmul-lowest-clipped", "scaled-matmul-generic",
        ((_TERM, _TERM.replace("(int32_t)left[i * a->strides[1]]",
                               "(int32_t)(left[i * a->strides[1]] == -128 ? -127 : left[i * a->strides[1]])")),),
        _NATIVE, "-128", _VALUE, "a range of codes taken for symmetric: -128 becomes -127",
    ),
    Mutant(
        "scaled-matmul-terms-in-fours", "scaled-matmul-generic",
        (("i < a->shape[1]; i++) sum", "i < (a->shape[1] > 4 ? a->shape[1] / 4 * 4 : a->shape[1]); i++) sum"),),
        _NATIVE, "k > 4 that is no multiple of 4", _VALUE, "instructions take four products at once: the tail is lost",
    ),
    Mutant(
        "scaled-matmul-sums-as-float", "scaled-matmul-generic",
        (("int32_t sum = 0;", "float sum = 0;"), ("static int32_t count", "static float count"),
         (_TERM, "sum += (float)left[i * a->strides[1]] * (float)right[i * b->strides[0]];")),
        _NATIVE, "partial sums of more than 24 bits", _VALUE, "whole numbers added as f32: over 2^24 it rounds",
    ),
    Mutant(
        "scaled-matmul-bias-scaled", "scaled-matmul-generic",
        ((_BIAS, "z += load(&call->bias, n * call->bias.strides[0]) * row;"),),
        _NATIVE, "a bias", _VALUE, "the bias added before the scale of the row",
    ),
    Mutant(
        "scaled-matmul-scale-of-row", "scaled-matmul-generic",
        ((_COUNT, _COUNT.replace("n * call->scale_b", "(c->shape[0] == c->shape[1] ? m : n) * call->scale_b")),),
        _NATIVE, "as many rows as columns", _VALUE, "the scale of a column taken by the row's number",
    ),
    Mutant(
        "scaled-matmul-unsigned", "scaled-matmul-generic",
        (("const int8_t *right = (const int8_t *)", "const uint8_t *right = (const uint8_t *)"),),
        _NATIVE, "a negative code in b", _VALUE, "codes of one operand taken for unsigned, as some instructions do",
    ),
)  # fmt: skip
