"""Planted defects in quantize_nvfp4, modelled on documented bugs of kernels that quantise."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_TORCH, _INTERPRETED = ("torch-*@cpu",), ("triton-*@interpret",)
_GENERIC, _EAGER, _TRITON = "quantize-nvfp4-generic", "quantize-nvfp4-eager", "quantize-nvfp4-tiled"
_CLIPPED = "rounded(KF_E4M3FN, low > 448 ? 448 : low)"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "nvfp4-nibbles-swapped", _GENERIC,
        (("(low | high << 4)", "(high | low << 4)"),),
        _NATIVE, "a pair of codes that differ", _VALUE, "the high 4 bits are taken for the first code",
    ),
    Mutant(
        "nvfp4-half-away", _GENERIC,
        (("size > 0.25f", "size >= 0.25f"), ("size > 1.25f", "size >= 1.25f"), ("size > 2.5f", "size >= 2.5f")),
        _NATIVE, "a tie with an even code below it", _VALUE, "E126, W18: ties are rounded away from zero",
    ),
    Mutant(
        "nvfp4-whole-steps", _GENERIC,
        (("(size >= 3.5f) + (size > 5.0f)", "(size >= 3.5f) + (size > 4.5f)"),),
        _NATIVE, "a number from 4.5 to 5 scales", _VALUE, "6 is taken for 5, the next one of 4",
    ),
    Mutant(
        "nvfp4-scale-not-rounded", _GENERIC,
        ((_CLIPPED, "low > 448 ? 448 : low"),),
        _NATIVE, "a scale that is no float of 8 bits", _VALUE, "codes of the scale before it is rounded",
    ),
    Mutant(
        "nvfp4-without-tensor-scale", _GENERIC,
        (("b, stored, stored * tensor_scale)", "b, stored, stored)"),),
        _NATIVE, "a tensor_scale other than 1", _VALUE, "codes of the scale of the block alone",
    ),
    Mutant(
        "nvfp4-scale-overflows", _GENERIC,
        ((_CLIPPED, "rounded(KF_E4M3FN, low)"),),
        _NATIVE, "a largest magnitude of more than 464 times 6 tensor_scales", _VALUE, "E128: NaN in the place of 448",
    ),
    Mutant(
        "nvfp4-zeros-divided", _GENERIC,
        (("stored == 0 ? 0 : code_of", "code_of"),),
        _NATIVE, "a block of zeros, least_scale = 0", _VALUE, "E124: the code of 0 / 0",
    ),
    Mutant(
        "nvfp4-least-scale-of-zeros-alone", _GENERIC,
        (("units < least_scale ?", "units == 0 ?"),),
        _NATIVE, "a scale below least_scale that is not 0", _VALUE, "a scale is no less than the smallest normal one",
    ),
    Mutant(
        "nvfp4-zero-without-sign", _GENERIC,
        (("signbit(x) ? 8", "x < 0 ? 8"),),
        _NATIVE, "a negative zero", _VALUE, "E135: the sign of a zero",
    ),
    Mutant(
        "nvfp4-reads-a-pair", _GENERIC,
        (("i + 1 < b.end ?", "i + 1 <= b.end ?"),),
        _NATIVE, "an odd n", _MEMORY, "E132: the second element of the last pair, which is behind the row",
    ),
    Mutant(
        "torch-nvfp4-halves", _EAGER,
        (("codes.flatten(-2).unflatten(-1, (-1, 2))", "codes.unflatten(-1, (2, -1)).mT.flatten(-3, -2)"),),
        _TORCH, "n > 2", _VALUE, "ggml's order: the high 4 bits are the second half of a block",
    ),
    Mutant(
        "torch-nvfp4-by-seven", _EAGER,
        (("/ 6.0 /", "/ 7.0 /"),),
        _TORCH, "a block that is not all zeros", _VALUE, "the largest code of int4 in the place of the largest number",
    ),
    Mutant(
        "torch-nvfp4-without-sign", _EAGER,
        (("units = blocks.abs().amax(-1)", "units = blocks.amax(-1).clamp(min=0.0)"),),
        _TORCH, "the largest magnitude is that of a negative number", _VALUE, "E133: abs forgotten",
    ),
    Mutant(
        "triton-nvfp4-nan-lost", _TRITON,
        (("(most > other) | (most != most)", "most > other"),),
        _INTERPRETED, "a NaN at an even place, and none at an odd one", _VALUE, "E130: a maximum passes over NaN",
    ),
    Mutant(
        "triton-nvfp4-subnormal-scales-lost", _TRITON,
        (("return steps * power_of(exponent - 3)", "return steps * (steps >= 8.0) * power_of(exponent - 3)"),),
        _INTERPRETED, "a scale below 2^-6", _VALUE, "scales below the smallest normal one are 0",
    ),
    Mutant(
        "triton-nvfp4-tail-lost", _TRITON,
        (("most, other = largest(first), largest(second)",
          "most, other = largest(tl.where(2 * pair < n // 8 * 8 + 8 * (n < 8), first, 0.0)), largest(second)"),),
        _INTERPRETED, "n > 8, the largest magnitude at an even place of the last n mod 8", _VALUE,
        "E132: the tail of a row is no part of its largest magnitude",
    ),
)  # fmt: skip
