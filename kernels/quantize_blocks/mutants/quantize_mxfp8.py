"""Planted defects in quantize_mxfp8, modelled on documented bugs of kernels that quantise."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_TORCH, _INTERPRETED = ("torch-*@cpu",), ("triton-*@interpret",)
_GENERIC, _EAGER, _TRITON = "quantize-mxfp8-generic", "quantize-mxfp8-eager", "quantize-mxfp8-tiled"
_STEPS = "(tl.abs(value) * power_of(MANTISSA - exponent) + 12582912.0) - 12582912.0"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mxfp8-overflows", _GENERIC,
        (("ratio > TOP ? TOP : ratio < -TOP ? -TOP : ratio", "ratio"),),
        _NATIVE, "a largest magnitude of more than 1.8 of a power of two, scale_rule = 0", _VALUE,
        "E128: NaN in the place of the largest number",
    ),
    Mutant(
        "mxfp8-rounds-scale-down", _GENERIC,
        (("scale_rule >= 2 && part > 1", "scale_rule == 2 && part > 1"),),
        _NATIVE, "scale_rule = 3", _VALUE, "E129: a scale that is rounded down",
    ),
    Mutant(
        "mxfp8-rises-at-powers", _GENERIC,
        (("scale_rule >= 2 && part > 1", "scale_rule >= 2 && part >= 1"),),
        _NATIVE, "a largest magnitude that is a power of two, scale_rule = 2; or 448 of them, 3", _VALUE,
        "the next power of two of one",
    ),
    Mutant(
        "mxfp8-carry-of-e5m2", _GENERIC,
        (("part >= CARRY", "part >= 1.875f"),),
        _NATIVE, "a mantissa from 1.875 to 1.9375, scale_rule = 1", _VALUE, "rounded as to a mantissa of 2 bits",
    ),
    Mutant(
        "mxfp8-by-logarithm", _GENERIC,
        (("stored = exponent - 1 + rises", "stored = (int)floorf(log2f(size)) + rises"),),
        _NATIVE, "a largest magnitude just below a power of two", _VALUE,
        "a logarithm that is rounded to a whole number",
    ),
    Mutant(
        "mxfp8-zeros-as-one", _GENERIC,
        (("if (size == 0) return 0;", ""),),
        _NATIVE, "a block of zeros", _VALUE, "E124: the exponent of zeros is that of frexp",
    ),
    Mutant(
        "mxfp8-wraps", _GENERIC,
        (("return stored < 0 ? 0 : stored;", "return stored & 255;"),),
        _NATIVE, "a largest magnitude below 2^-119", _VALUE, "an exponent below 0 wraps",
    ),
    Mutant(
        "mxfp8-nan-lost", _GENERIC,
        (("if (isnan(most)) return 255;", ""), ("if (isinf(most))", "if (!isfinite(most))")),
        _NATIVE, "a NaN in a block", _VALUE, "E130: a block with a NaN has a number as its scale",
    ),
    Mutant(
        "mxfp8-infinity-is-nan", _GENERIC,
        (("if (isinf(most)) return of_infinity;", "if (isinf(most)) return 255;"),),
        _NATIVE, "an infinity in a block, of_infinity = 254 or 247", _VALUE,
        "E134: the policy of infinities is another one",
    ),
    Mutant(
        "mxfp8-last-block-forgotten", _GENERIC,
        (("number < scale->shape[scale->rank - 1]", "number < (r.n < 32 ? 1 : r.n / 32)"),),
        _NATIVE, "n > 32 and no multiple of it", ("FAIL_UNWRITTEN",), "what is left of a row is not written",
    ),
    Mutant(
        "torch-mxfp8-subnormal-share-rises", _EAGER,
        (("torch.where(bits >> 23 == 0, 0x400000, 0)", "0"),),
        _TORCH, "a largest magnitude below 448 times 2^-127, scale_rule = 3", _VALUE,
        "2^-127 has an exponent of 0 as all subnormal numbers have",
    ),
    Mutant(
        "torch-mxfp8-without-sign", _EAGER,
        (("most = blocks.abs().amax(-1)", "most = blocks.amax(-1).clamp(min=0.0)"),),
        _TORCH, "the largest magnitude is that of a negative number", _VALUE, "E133: abs forgotten",
    ),
    Mutant(
        "triton-mxfp8-half-away", _TRITON,
        ((_STEPS, "tl.floor(tl.abs(value) * power_of(MANTISSA - exponent) + 0.5)"),),
        _INTERPRETED, "a tie of two floats of 8 bits", _VALUE, "E126, W18: ties are rounded away from zero",
    ),
    Mutant(
        "triton-mxfp8-truncated", _TRITON,
        ((_STEPS, "tl.floor(tl.abs(value) * power_of(MANTISSA - exponent))"),),
        _INTERPRETED, "elements that are no floats of 8 bits", _VALUE, "E125: bits are cut off",
    ),
    Mutant(
        "triton-mxfp8-subnormal-codes-lost", _TRITON,
        (("value != value, 0.0, steps)", "(value != value) | (steps < 8.0), 0.0, steps)"),),
        _INTERPRETED, "an element below 2^-6 of the scale", _VALUE, "codes below the smallest normal one are 0",
    ),
    Mutant(
        "triton-mxfp8-tail-lost", _TRITON,
        (("exponent_of(largest(x)", "exponent_of(largest(tl.where(column < n // 16 * 16 + 16 * (n < 16), x, 0.0))"),),
        _INTERPRETED, "n > 16, the largest magnitude in the last n mod 16", _VALUE,
        "E132: the tail of a row is no part of its largest magnitude",
    ),
    Mutant(
        "triton-mxfp8-smallest-power-lost", _TRITON,
        (("tl.where(exponent == -127, 0x00400000, (exponent + 127) << 23)", "(exponent + 127) << 23"),),
        _INTERPRETED, "an infinity in a block, of_infinity = 254", _VALUE,
        "2^-127 is made as a normal number, and is 0",
    ),
)  # fmt: skip
