"""Planted defects in dequantize_matmul, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_GENERIC, _TILED = "dequantize-matmul-generic", "dequantize-matmul-tiled"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "dequantize-matmul-scale-of-next-group", _GENERIC,
        (("n * scale->strides[0] + g * scale->strides[1]",
          "n * scale->strides[0] + (g > 3 ? g - 1 : g) * scale->strides[1]"),),
        _NATIVE, "g > 4", _VALUE, "from the fifth group on each has the scale of the one before",
    ),
    Mutant(
        "dequantize-matmul-codes-unsigned", _GENERIC,
        (("(float)codes[k * q->strides[2]]", "(float)(uint8_t)codes[k * q->strides[2]]"),),
        _NATIVE, "a negative code", _VALUE, "int8 taken for uint8",
    ),
    Mutant(
        "dequantize-matmul-lowest-code", _GENERIC,
        (("(float)codes[k * q->strides[2]]", "fmaxf((float)codes[k * q->strides[2]], -127.0f)"),),
        _NATIVE, "a code of -128", _VALUE, "ggml#1393: symmetric codes, of which -128 is none",
    ),
    Mutant(
        "dequantize-matmul-sums-in-16-bits", _GENERIC,
        (("sum += group_of(x, q, m, n, g) *", "sum += rounded(x->dtype, group_of(x, q, m, n, g)) *"),),
        _NATIVE, "16 bits", _VALUE, "E098: the sum of a group is rounded to 16 bits",
    ),
    Mutant(
        "triton-dequantize-matmul-tail-of-group", _TILED,
        (("            inside = steps < k\n", "            inside = steps < g * 0 + tl.cdiv(k, STEPS) * STEPS\n"),),
        _INTERPRETED, "k mod 32 != 0", _MEMORY, "E121: the steps beyond a group are those of the next one",
    ),
    Mutant(
        "triton-dequantize-matmul-last-group", _TILED,
        (("for g in range(groups):", "for g in range(groups - (groups % 2) * (groups > 1)):"),),
        _INTERPRETED, "g odd, and more than 1", _VALUE, "groups are taken in pairs",
    ),
    Mutant(
        "torch-dequantize-matmul-scale-of-first-group", "dequantize-matmul-eager",
        (("scale.float().unsqueeze(-1)", "scale[:, :1].float().unsqueeze(-1)"),),
        ("torch-*@cpu",), "several groups", _VALUE, "one scale for a whole row",
    ),
)  # fmt: skip
