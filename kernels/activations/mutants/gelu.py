"""Planted defects in gelu, its approximation and their gradients, modelled on documented bugs of such kernels."""

from __future__ import annotations

from pathlib import Path

from fuzz import Mutant

__all__ = ["INTERPRETED", "MEMORY", "MUTANTS", "NATIVE", "VALUE", "in_the_loop"]

VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
MEMORY = ("FAIL_MEMORY", "CRASH")
NATIVE = ("*@native:*-O2",)
INTERPRETED = ("triton-*@interpret",)
_LOOP = (Path(__file__).resolve().parents[1] / "c" / "elementwise.h").read_text(encoding="utf-8")
_DETACHED = "ready = detach(&in[i], &out[0], &out[outputs - 1], &copies[i]);"

_GELU = "*out = 0.5f * in[0] * (1.0f + erff(in[0] * 0x1.6a09e6p-1f));"
_GELU_CALL = "int kf_gelu(const kf_gelu_call *call) {\n"
_GELU_ONE = "def _of_one(x_ptr, y_ptr, elements, TANH: tl.constexpr, BLOCK: tl.constexpr):\n"
_BLOCK_OF_ONE = f"{_GELU_ONE}    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)\n"
_STORE_OF_ONE = "tl.store(y_ptr + place, _gelu_tanh(x) if TANH else _gelu(x), mask=inside)"
_GELU_SLOPE = "*out = dy * (cdf + x * pdf);"
_TANH_CALL = "int kf_gelu_tanh(const kf_gelu_tanh_call *call) {\n"
_TANH_STEP = "v_store(to + i, n - i, gelu(v_load(from + i, n - i, 0.0f)));\n"
_TANH_SLOPE_CALL = "int kf_gelu_tanh_backward(const kf_gelu_tanh_backward_call *call) {\n"
_TANH = "const float t = tanhf(0x1.988454p-1f * (x + 0.044715f * (square * x)));"
_TANH_SLOPE = "*out = dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);"
_TANH_GRADIENT = "    dx.copy_(dy.float() * (0.5 * (1.0 + t) + 0.5 * wide * (1.0 - t * t) * slope))\n"


def in_the_loop(old: str, new: str) -> tuple[str, str]:
    """The edit of a source that has its loop with one of its own."""
    before, behind = _LOOP.split(old)
    return ('#include "elementwise.h"\n', f"{before}{new}{behind}")


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "gelu-one-number-of-16-bits", "gelu-generic",
        ((_GELU, _GELU.replace("*out =", "*out = in[0] == 0x1.a54p-3f ? 0x1p-3f :")),),
        NATIVE, "the number 0x1.a54p-3 of f16", VALUE,
        "a table with one wrong entry: only a sweep of all numbers comes upon it", big=True,
    ),
    Mutant(
        "gelu-tanh-for-erf", "gelu-generic",
        (
            (
                _GELU,
                "const float x = in[0], u = 0x1.988454p-1f * (x + 0.044715f * (x * x * x));\n"
                "    *out = 0.5f * x * (1.0f + tanhf(u));",
            ),
        ),
        NATIVE, "nearly every element beyond 1", VALUE,
        "the approximation for the error function, at most 5e-4 off: published tolerances do not tell them apart",
    ),
    Mutant(
        "gelu-nothing-below-bound", "gelu-generic",
        ((_GELU, _GELU.replace("*out =", "*out = in[0] <= -4.5f ? 0.0f :")),),
        NATIVE, "an element between -5.3 and -4.5", VALUE,
        "E083: the tail taken for 0, as a tolerance of 10 eps of an element of 1 allows from -5.2 on, and too early",
    ),
    Mutant(
        "gelu-bf16-by-table-of-f16", "gelu-generic",
        (
            (
                _GELU_CALL,
                "static void by_table(const float *in, float *out) {\n"
                "    const float x = rounded(KF_F16, in[0]);\n"
                "    gelu(&x, out);\n}\n\n" + _GELU_CALL,
            ),
            ("call->axis, gelu)", "call->axis, call->x.dtype == KF_BF16 ? by_table : gelu)"),
        ),
        NATIVE, "x of bf16 with an element beyond 65504, or one of less than 2^-17", VALUE,
        "a table over all f16, as ggml has it, looked up for bf16 too: what f16 does not hold is infinite or 0",
    ),
    Mutant(
        "gelu-layout-of-y", "gelu-generic",
        (in_the_loop("at(&r, &out[o], place)", "at(&r, &in[0], place)"),),
        NATIVE, "x and y of different strides", (*VALUE, *MEMORY, "FAIL_UNWRITTEN"),
        "E056, E089: the output addressed as if it lay as the input does",
    ),
    Mutant(
        "gelu-copied-one-way", "gelu-generic",
        (in_the_loop(_DETACHED, _DETACHED.replace("= ", "= (char *)out[0].data < (char *)in[i].data || ", 1)),),
        NATIVE, "y overlaps x in part and begins before it, and is not one dense row after the other", VALUE,
        "the rule of memmove, that going up is safe where the output begins first: true of equal dense layouts only",
    ),
    Mutant(
        "triton-gelu-stores-pairs", "gelu-blocks",
        ((_STORE_OF_ONE, _STORE_OF_ONE.replace("mask=inside", "mask=place < (elements + 1) // 2 * 2")),),
        INTERPRETED, "an odd number of elements", MEMORY,
        "E093: the end of the last block checked by pairs",
    ),
    Mutant(
        "triton-gelu-last-block-moved-back", "gelu-blocks",
        (
            (
                _BLOCK_OF_ONE,
                f"{_GELU_ONE}    start = tl.minimum(tl.program_id(0).to(tl.int64) * BLOCK, elements - BLOCK)\n"
                "    place = tl.maximum(start, 0) + tl.arange(0, BLOCK)\n",
            ),
        ),
        INTERPRETED, "in place, more than 1024 elements and no multiple of 1024", VALUE,
        "W11: a last block that is whole because it begins in the one before, whose results it reads in place",
    ),
    Mutant(
        "gelu-backward-of-tanh", "gelu-backward-generic",
        (
            (
                _GELU_SLOPE,
                "const float t = tanhf(0x1.988454p-1f * (x + 0.044715f * x * x * x));\n"
                "    const float slope = 0x1.988454p-1f * (1.0f + 3.0f * 0.044715f * x * x);\n"
                "    *out = dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope) + 0.0f * (cdf + pdf);",
            ),
        ),
        NATIVE, "nearly every element beyond 1", VALUE,
        "E084: the gradient of the approximation for a forward by the error function",
    ),
    Mutant(
        "gelu-backward-one-beyond-bound", "gelu-backward-generic",
        ((_GELU_SLOPE, "*out = x >= 5.0f ? dy : dy * (cdf + x * pdf);"),),
        NATIVE, "x of f32 with an element between 5 and 5.7", VALUE,
        "a shortcut for large elements that begins too early: the derivative is still 7e-6 above 1",
    ),
    Mutant(
        "gelu-backward-layout-of-dy", "gelu-backward-generic",
        (in_the_loop("at(&r, &in[i], place)", "at(&r, &in[0], place)"),),
        NATIVE, "x and dy of different strides", (*VALUE, *MEMORY),
        "E089: a gradient that does not lie as the input does, read as if it did",
    ),
    Mutant(
        "triton-gelu-backward-derivative-rounded", "gelu-backward-blocks",
        (
            (
                "_gelu_backward(x, other)\n",
                "_gelu_backward(x, 1.0).to(y_ptr.dtype.element_ty).to(tl.float32) * other\n",
            ),
        ),
        INTERPRETED, "x of 16 bits", VALUE, "E091: a rounding that the gradient does not have by its contract",
    ),
    Mutant(
        "gelu-tanh-avx2-quotient-overflows", "gelu-tanh-avx2",
        (
            (
                f" {_TANH_STEP}",
                " {\n            const vector x = v_load(from + i, n - i, 0.0f), square = v_multiply(x, x);\n"
                "            const vector u = v_multiply(v_multiply(v_all(0x1.988454p-1f), x),\n"
                "                                        v_multiply_add(v_all(0.044715f), square, v_all(1.0f)));\n"
                "            const vector e = v_exp(v_add(u, u));\n"
                "            const vector whole = v_multiply(x, v_divide(e, v_add(v_all(1.0f), e)));\n"
                "            v_store(to + i, n - i, n - i >= v_lanes() ? whole : gelu(x));\n        }\n",
            ),
        ),
        NATIVE, "an element beyond 10 that is not of the tail", VALUE,
        "W12, E079, E080: a quotient of two infinities, in whole vectors only",
        fails_when=lambda n: n >= 8,
    ),
    Mutant(
        "gelu-tanh-avx2-tail-moved-back", "gelu-tanh-avx2",
        (
            (
                f" {_TANH_STEP}",
                " {\n            const size_t start = n > v_lanes() && n - i < v_lanes() ? n - v_lanes() : i;\n"
                "            v_store(to + start, n - start, gelu(v_load(from + start, n - start, 0.0f)));\n        }\n",
            ),
        ),
        NATIVE, "in place, n > 8 and n mod 8 != 0", VALUE,
        "W11: a last vector that is whole because it begins in the one before, whose results it reads in place",
        fails_when=lambda n: n > 8 and n % 8 != 0,
    ),
    Mutant(
        "gelu-tanh-sve-unsaturated", "gelu-tanh-sve",
        (
            (
                f" {_TANH_STEP}",
                " {\n            const vector x = v_load(from + i, n - i, 0.0f), square = v_multiply(x, x);\n"
                "            const vector u = v_multiply(v_multiply(v_all(0x1.988454p-1f), x),\n"
                "                                        v_multiply_add(v_all(0.044715f), square, v_all(1.0f)));\n"
                "            const vector s = v_multiply(u, u);\n"
                "            vector above = v_add(s, v_all(378.0f));\n"
                "            vector below = v_multiply_add(v_all(28.0f), s, v_all(3150.0f));\n"
                "            above = v_multiply_add(v_multiply_add(above, s, v_all(17325.0f)), s, v_all(135135.0f));\n"
                "            below = v_multiply_add(v_multiply_add(below, s, v_all(62370.0f)), s, v_all(135135.0f));\n"
                "            const vector t = v_divide(v_multiply(u, above), below);\n"
                "            const vector whole = v_multiply(v_multiply(v_all(0.5f), x), v_add(v_all(1.0f), t));\n"
                "            v_store(to + i, n - i, n - i >= v_lanes() ? whole : gelu(x));\n        }\n",
            ),
        ),
        ("*@qemu:vl=*-O2",), "a row of at least a vector, an element beyond 2", VALUE,
        "E082: a rational tangent that nothing saturates, in whole vectors only",
    ),
    Mutant(
        "gelu-tanh-sve-exponent-clamped", "gelu-tanh-sve",
        (
            (
                "v_exp(v_multiply(v_all(-2.0f), u))",
                "v_exp(v_min(v_all(18.0f), v_multiply(v_all(-2.0f), u)))",
            ),
        ),
        ("*@qemu:vl=*-O2",), "an element of less than -5", VALUE,
        "E087: a sigmoid that ends at 1.5e-8 and not at 0, times x",
    ),
    Mutant(
        "gelu-tanh-argument-in-f16", "gelu-tanh-generic",
        (
            (
                _TANH_CALL,
                "static void gelu_of_f16(const float *in, float *out) {\n"
                "    const float x = in[0], u = rounded(KF_F16, 0x1.988454p-1f * (x + 0.044715f * (x * x * x)));\n"
                "    *out = 0.5f * x * (1.0f + tanhf(u));\n}\n\n" + _TANH_CALL,
            ),
            ("call->axis, gelu)", "call->axis, call->x.dtype == KF_F16 ? gelu_of_f16 : gelu)"),
        ),
        NATIVE, "x of f16 with an element between -5 and -1.5", VALUE,
        "an intermediate result rounded to the dtype of x, as in vLLM's gelu_new",
    ),
    Mutant(
        "gelu-tanh-constants-in-bf16", "gelu-tanh-generic",
        (
            (
                _TANH_CALL,
                "static void gelu_of_bf16(const float *in, float *out) {\n"
                "    const float x = in[0], slope = rounded(KF_BF16, 0x1.988454p-1f);\n"
                "    const float u = slope * (x + rounded(KF_BF16, 0.044715f) * (x * x * x));\n"
                "    *out = 0.5f * x * (1.0f + tanhf(u));\n}\n\n" + _TANH_CALL,
            ),
            ("call->axis, gelu)", "call->axis, call->x.dtype == KF_BF16 ? gelu_of_bf16 : gelu)"),
        ),
        NATIVE, "x of bf16 with an element between -6 and -2", VALUE,
        "constants that take the dtype of x: 0.796875 and 0.04468",
    ),
    Mutant(
        "triton-gelu-tanh-quotient-overflows", "gelu-tanh-blocks",
        (
            (
                "return tl.div_rn(x, 1.0 + tl.exp(-2.0 * u))",
                "e = tl.exp(2.0 * u)\n    return x * tl.div_rn(e, 1.0 + e)",
            ),
        ),
        INTERPRETED, "an element beyond 10", VALUE, "E078, E079: a quotient of two infinities",
    ),
    Mutant(
        "gelu-tanh-backward-without-three", "gelu-tanh-backward-generic",
        (("3.0f * 0.044715f * square", "0.044715f * square"),),
        NATIVE, "nearly every element beyond 0.5", VALUE, "a control: the cube differentiated without its factor",
    ),
    Mutant(
        "gelu-tanh-backward-quotient-overflows", "gelu-tanh-backward-generic",
        (
            (
                _TANH,
                "const float e = expf(2.0f * (0x1.988454p-1f * (x + 0.044715f * (square * x))));\n"
                "    const float t = (e - 1.0f) / (e + 1.0f);",
            ),
        ),
        NATIVE, "an element beyond 10", VALUE, "E078, E079: the tangent by a quotient of two infinities",
    ),
    Mutant(
        "gelu-tanh-backward-tangent-in-bf16", "gelu-tanh-backward-generic",
        (
            (
                _TANH_SLOPE_CALL,
                "static void of_bf16(const float *in, float *out) {\n"
                "    const float x = in[0], dy = in[1], square = x * x;\n"
                f"    {_TANH.replace('tanhf(', 'rounded(KF_BF16, tanhf(').replace(';', ');')}\n"
                "    const float slope = 0x1.988454p-1f * (1.0f + 0.134145f * square);\n"
                f"    {_TANH_SLOPE.replace('(1.0f - t * t)', '((1.0f - t) * (1.0f + t))')}\n"
                "}\n\n" + _TANH_SLOPE_CALL,
            ),
            ("call->axis, differentiate)", "call->axis, call->x.dtype == KF_BF16 ? of_bf16 : differentiate)"),
        ),
        NATIVE, "x of bf16 with an element of less than -1", VALUE,
        "E091: a tangent kept in the dtype of x, whose difference from 1 is then lost",
    ),
    Mutant(
        "torch-gelu-tanh-backward-in-two-parts", "gelu-tanh-backward-eager",
        (
            (
                _TANH_GRADIENT,
                "    second = (dy.float() * (0.5 * wide * (1.0 - t * t) * slope)).to(dx.dtype)\n"
                "    dx.copy_(dy.float() * (0.5 * (1.0 + t)))\n"
                "    dx.add_(second)\n",
            ),
        ),
        ("torch-*@cpu",), "x of 16 bits with an element near -0.75, or less than -1", VALUE,
        "E074, E084: two parts of opposite signs, each rounded to 16 bits before they are added",
    ),
)  # fmt: skip
