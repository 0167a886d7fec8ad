"""Planted defects in quantize_rows, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_INT8, _E4M3, _TRITON = "quantize-rows-generic", "quantize-rows-e4m3-generic", "quantize-rows-whole-row"
_STORED = "code > 127 ? 127 : code < -128 ? -128 : code"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "quantize-rows-by-128", _INT8, (("call->axis, 127.0f", "call->axis, 128.0f"),),
        _NATIVE, "a row that is not all zeros", _VALUE, "the scale is absmax / 128",
    ),
    Mutant(
        "quantize-rows-half-away", _INT8, (("nearbyintf(", "roundf("),),
        _NATIVE, "x / scale is exactly k + 1/2, k even", _VALUE, "E126, W18: ties are rounded away from zero",
    ),
    Mutant(
        "quantize-rows-truncated", _INT8, (("nearbyintf(", "truncf("),),
        _NATIVE, "codes that are not whole", _VALUE, "E125: the fraction is cut off",
    ),
    Mutant(
        "quantize-rows-wraps", _INT8, ((_STORED, "(int8_t)(int)fminf(fmaxf(code, -1e6f), 1e6f)"),),
        _NATIVE, "a scale so small that it is rounded down by far", _VALUE, "saturation by wrapping",
    ),
    Mutant(
        "quantize-rows-by-reciprocal", _INT8,
        (("load(x, at(r, x, i)) / scale", "load(x, at(r, x, i)) * (1.0f / scale)"),),
        _NATIVE, "a quotient so near a tie that one more rounding decides", _VALUE,
        "times a reciprocal, declared divided",
    ),
    Mutant(
        "quantize-rows-zeros-divided", _INT8,
        (("most == 0 ? 0.0f : nearbyintf", "nearbyintf"), ("isnan(code) ? 0 : ", "isnan(code) ? 1 : ")),
        _NATIVE, "a row of zeros, of_zeros = 0", _VALUE, "E124: 0 / 0 is cast to an integer",
    ),
    Mutant(
        "quantize-rows-e4m3-by-reciprocal-overflow", _E4M3,
        (("ratio > 448 ? 448 : ratio < -448 ? -448 : ratio", "ratio * 1.04f"),),
        _NATIVE, "an element of more than 446 scales", _VALUE, "E128: NaN in the place of the largest number",
    ),
    Mutant(
        "quantize-rows-e4m3-by-half-range", _E4M3, (("call->axis, 448.0f", "call->axis, 240.0f"),),
        _NATIVE, "a row that is not all zeros", _VALUE, "e4m3fnuz for e4m3fn: its largest number is 240",
    ),
    Mutant(
        "triton-quantize-rows-nan-lost", _TRITON,
        (('tl.where(nan > 0, float("nan"), tl.max(tl.abs(x), axis=0, keep_dims=True))',
          "tl.max(tl.abs(x), axis=0, keep_dims=True)"),),
        _INTERPRETED, "a NaN in a row", ("FAIL_NONFINITE",), "E130, W20: a maximum passes over NaN",
    ),
    Mutant(
        "triton-quantize-rows-without-sign", _TRITON,
        (("tl.max(tl.abs(x), axis=0, keep_dims=True))", "tl.max(x, axis=0, keep_dims=True))"),),
        _INTERPRETED, "the largest magnitude is that of a negative number", _VALUE, "E133: abs forgotten",
    ),
    Mutant(
        "triton-quantize-rows-tail-lost", _TRITON,
        (("tl.max(tl.abs(x), axis=0, keep_dims=True))",
          "tl.max(tl.where(column < n // 16 * 16 + 16 * (n < 16), tl.abs(x), 0.0), axis=0, keep_dims=True))"),),
        _INTERPRETED, "n > 16, the largest magnitude in the last n mod 16", _VALUE,
        "E132: the tail of a row is no part of its largest magnitude",
    ),
    Mutant(
        "torch-quantize-rows-asymmetric-range", "quantize-rows-eager",
        (("127.0, of_zeros, scale)", "127.5, of_zeros, scale)"),),
        ("torch-*@cpu",), "a row that is not all zeros", _VALUE, "the scale is absmax / 127.5",
    ),
)  # fmt: skip
