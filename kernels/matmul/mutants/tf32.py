"""Planted defects in products of TF32: what is multiplied has other bits than are promised."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_SECOND = "factor(load(b, b_column + i * b_step))"
_UP = "(TF32 << (DROPPED - 1))"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "matmul-tf32-first-alone", "matmul-tf32", ((_SECOND, "load(b, b_column + i * b_step)"),),
        _NATIVE, "b of more than 11 bits", _VALUE, "one factor is rounded, the other is taken as it is",
    ),
    Mutant(
        "matmul-tf32-of-f32", "matmul-tf32",
        (("return value;\n    bits =", "return value;\n    return value;\n    bits ="),),
        _NATIVE, "factors of more than 11 bits", _VALUE, "what is more accurate than promised is another result too",
    ),
    Mutant(
        "matmul-tf32-cuts", "matmul-tf32", ((_UP, "0"),),
        _NATIVE, "13 bits of which the first is set", _VALUE, "a number is cut off where it is to be rounded",
    ),
    Mutant(
        "matmul-tf32-ties-to-even", "matmul-tf32", ((_UP, "(0xfff + (bits >> DROPPED & 1))"),),
        _NATIVE, "a tie between two numbers of 11 bits, the lower one even", _VALUE, "E126: ties to even",
    ),
    Mutant(
        "matmul-tf32-of-bf16", "matmul-tf32", (("#define DROPPED 13", "#define DROPPED 16"),),
        _NATIVE, "factors of more than 8 bits", _VALUE, "the 8 bits of bf16 in the place of 11",
    ),
    Mutant(
        "matmul-tf32-cut-rounds", "matmul-tf32-cut", ((_UP, "(1 << (DROPPED - 1))"),),
        _NATIVE, "13 bits of which the first is set", _VALUE, "a number is rounded where it is to be cut off",
    ),
    Mutant(
        "matmul-tf32-sums", "matmul-tf32-cut", (("    return sum;", "    return factor(sum);"),),
        _NATIVE, "a sum of more than 11 bits", _VALUE, "E137: the sum, too, has no more than 11 bits",
    ),
    Mutant(
        "triton-matmul-tf32-second-alone", "matmul-tf32-rounded", (("_factor(a), _factor(b)", "a, _factor(b)"),),
        _INTERPRETED, "a of more than 11 bits", _VALUE, "one factor is rounded, the other is taken as it is",
    ),
)  # fmt: skip
