"""Planted defects in quantize_mxfp8_e5m2, modelled on documented bugs of kernels that quantise."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_TORCH, _INTERPRETED = ("torch-*@cpu",), ("triton-*@interpret",)
_GENERIC = "quantize-mxfp8-e5m2-generic"
_EAGER, _TRITON = "quantize-mxfp8-e5m2-eager", "quantize-mxfp8-e5m2-tiled"
_STEPS = "(tl.abs(value) * power_of(MANTISSA - exponent) + 12582912.0) - 12582912.0"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mxfp8-e5m2-overflows", _GENERIC,
        (("ratio > TOP ? TOP : ratio < -TOP ? -TOP : ratio", "ratio"),),
        _NATIVE, "a largest magnitude of more than 1.8 of a power of two, scale_rule = 0", _VALUE,
        "E128: an infinity in the place of the largest number",
    ),
    Mutant(
        "mxfp8-e5m2-carry-of-e4m3", _GENERIC,
        (("CARRY = 1.875f", "CARRY = 1.9375f"),),
        _NATIVE, "a mantissa from 1.875 to 1.9375, scale_rule = 1", _VALUE, "rounded as to a mantissa of 3 bits",
    ),
    Mutant(
        "mxfp8-e5m2-exponent-of-half-range", _GENERIC,
        (("TOP_EXPONENT = 15", "TOP_EXPONENT = 14"),),
        _NATIVE, "a block that is not all zeros", _VALUE, "the exponent of 1 is counted twice: codes to 28672",
    ),
    Mutant(
        "mxfp8-e5m2-negative-overflows", _GENERIC,
        (("ratio < -TOP ? -TOP : ratio", "ratio"),),
        _NATIVE, "a negative element of more than 1.8 of a power of two, scale_rule = 0", _VALUE,
        "E133: cut off on one side alone",
    ),
    Mutant(
        "mxfp8-e5m2-infinity-kept", _GENERIC,
        (("const float ratio = stored == 255 ? NAN : ldexpf(",
          "if (isinf(load(x, at(r, x, i))) && stored < 255) {\n            store(q, at(r, q, i), load(x, at(r, x, i)));"
          "\n            continue;\n        }\n        const float ratio = stored == 255 ? NAN : ldexpf("),),
        _NATIVE, "an infinity in a block, of_infinity = 254 or 240", _VALUE,
        "E134: the format has infinities, so one stays one",
    ),
    Mutant(
        "torch-mxfp8-e5m2-by-half", _EAGER,
        (("movedim(-1, axis).to(q.dtype)", "movedim(-1, axis).half().to(q.dtype)"),),
        _TORCH, "an element so near a tie that float16 has the tie", _VALUE,
        "rounded twice: float16 has as many exponents",
    ),
    Mutant(
        "torch-mxfp8-e5m2-share-of-power", _EAGER,
        (("_Element(57344.0, 15, 2)", "_Element(65536.0, 15, 2)"),),
        _TORCH, "a largest magnitude of more than 1.8 of a power of two", _VALUE, "E129: 2^16 for the largest number",
    ),
    Mutant(
        "triton-mxfp8-e5m2-half-away", _TRITON,
        ((_STEPS, "tl.floor(tl.abs(value) * power_of(MANTISSA - exponent) + 0.5)"),),
        _INTERPRETED, "a tie of two floats of 8 bits", _VALUE, "E126, W18: ties are rounded away from zero",
    ),
    Mutant(
        "triton-mxfp8-e5m2-subnormal-codes-lost", _TRITON,
        (("value != value, 0.0, steps)", "(value != value) | (steps < 4.0), 0.0, steps)"),),
        _INTERPRETED, "an element below 2^-14 of the scale", _VALUE, "codes below the smallest normal one are 0",
    ),
)  # fmt: skip
