"""Planted defects in int4_matmul, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_TORCH = ("torch-*@cpu",)
_GENERIC, _EAGER = "int4-matmul-generic", "int4-matmul-eager"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "int4-matmul-nibbles-swapped", _GENERIC,
        (("k % 2 == 0 ? byte & 15", "k % 2 != 0 ? byte & 15"),),
        _NATIVE, "a byte of two codes that differ", _VALUE, "the high 4 bits are taken for the first code",
    ),
    Mutant(
        "int4-matmul-sign-extended", _GENERIC,
        (("const uint8_t *bytes = (const uint8_t *)q->data", "const int8_t *bytes = (const int8_t *)q->data"),),
        _NATIVE, "a high code of 8 or more", _VALUE, "a byte is shifted with its sign: 15 becomes -1",
    ),
    Mutant(
        "int4-matmul-twos-complement", _GENERIC,
        (("(float)(code - zero_point)", "(float)((zero_point == 8 ? code ^ 8 : code) - zero_point)"),),
        _NATIVE, "a zero point of 8, or none", _VALUE, "codes of two's complement, where they are counted from 8",
    ),
    Mutant(
        "int4-matmul-zero-off-by-one", _GENERIC,
        (("is_present(zero_point) ? (", "is_present(zero_point) ? 1 + ("),),
        _NATIVE, "a zero point", _VALUE, "AutoGPTQ stores zero points less 1: 1 is added to others",
    ),
    Mutant(
        "int4-matmul-zero-of-7", _GENERIC,
        ((": 8;", ": 7;"),),
        _NATIVE, "no zero point", _VALUE, "codes are counted from the middle of 0 to 15, rounded down",
    ),
    Mutant(
        "int4-matmul-zero-is-a-nibble", _GENERIC,
        (("g * zero_point->strides[1]] : 8", "g * zero_point->strides[1]] & 15 : 8"),),
        _NATIVE, "a zero point that is no code", _VALUE, "4 bits of a zero point of 8",
    ),
    Mutant(
        "int4-matmul-scale-of-next-group", _GENERIC,
        (("g * scale->strides[1]", "(g + (g + 2 == x->shape[1])) * scale->strides[1]"),),
        _NATIVE, "several groups", _VALUE, "the last group but one has the scale of the last one",
    ),
    Mutant(
        "int4-matmul-tail-of-group", _GENERIC,
        (("k < x->shape[2]; k++", "k < (x->shape[2] > 8 ? x->shape[2] / 8 * 8 : x->shape[2]); k++"),),
        _NATIVE, "k > 8 and no multiple of it", _VALUE, "32 bits of codes at once: what they do not divide is lost",
    ),
    Mutant(
        "int4-matmul-groups-in-pairs", _GENERIC,
        (("g < x->shape[1]; g++", "g < x->shape[1] / 2 * 2 + (x->shape[1] == 1); g++"),),
        _NATIVE, "g odd, and more than 1", _VALUE, "the number of groups is rounded to an even one",
    ),
    Mutant(
        "torch-int4-matmul-halves", _EAGER,
        (("torch.stack((byte & 15, byte >> 4), -1).flatten(-2)", "torch.cat((byte & 15, byte >> 4), -1)"),),
        _TORCH, "k > 2", _VALUE, "ggml's order: the high 4 bits are the second half of a group",
    ),
    Mutant(
        "torch-int4-matmul-wraps", _EAGER,
        ((".flatten(-2).float()", ".flatten(-2)"),
         ("zero_point.float().unsqueeze(-1)", "zero_point.view(torch.uint8).unsqueeze(-1)"), ("8.0 if", "8 if"),),
        _TORCH, "a code below its zero point", _VALUE, "codes less zero points as bytes without a sign: -1 becomes 255",
    ),
)  # fmt: skip
