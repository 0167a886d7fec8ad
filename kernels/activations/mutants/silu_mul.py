"""Planted defects in silu_mul and its gradients, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

from .gelu import INTERPRETED, MEMORY, NATIVE, VALUE, in_the_loop

__all__ = ["MUTANTS"]

_GATED = "static void gated(const float *in, float *out) { *out = in[0] / (1.0f + expf(-in[0])) * in[1]; }\n"
_GATED_STEP = "            v_store(to + i, n - i, gated(v_load(g + i, n - i, 0.0f), v_load(u + i, n - i, 0.0f)));\n"
_SILU_SLOPE_CALL = "int kf_silu_mul_backward(const kf_silu_mul_backward_call *call) {\n"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "silu-mul-silu-rounded", "silu-mul-generic",
        (
            (
                _GATED,
                "static inline void by(const float *in, float *out, kf_dtype dtype) {\n"
                "    *out = rounded(dtype, in[0] / (1.0f + expf(-in[0]))) * in[1];\n}\n\n"
                "static void gated(const float *in, float *out) { by(in, out, KF_F32); }\n"
                "static void gated_f16(const float *in, float *out) { by(in, out, KF_F16); }\n",
            ),
            ("call->axis, gated)", "call->axis, call->gate.dtype == KF_F16 ? gated_f16 : gated)"),
        ),
        NATIVE, "gate of f16", VALUE,
        "silu rounded to the dtype before the product, as Liger does and its contract says: this one's does not",
    ),
    Mutant(
        "silu-mul-avx2-floored", "silu-mul-avx2",
        (
            (
                _GATED_STEP,
                "        {\n"
                "            const vector a = v_load(g + i, n - i, 0.0f), b = v_load(u + i, n - i, 0.0f);\n"
                "            const vector e = v_exp(v_min(v_all(18.0f), v_subtract(v_all(0.0f), a)));\n"
                "            const vector whole = v_multiply(v_divide(a, v_add(v_all(1.0f), e)), b);\n"
                "            v_store(to + i, n - i, n - i >= v_lanes() ? whole : gated(a, b));\n"
                "        }\n",
            ),
        ),
        NATIVE, "a gate of less than -19 that is not of the tail", VALUE,
        "W14, E087: the sigmoid floored at that of -18, times gate: it grows with the gate",
        fails_when=lambda n: n >= 8,
    ),
    Mutant(
        "silu-mul-avx2-guard-on-both-halves", "silu-mul-avx2",
        (
            (
                "        float *to = row_of(y, &r);\n",
                "        float *to = row_of(y, &r);\n"
                "        if (n % 8 == 4) u = (const float *)((uintptr_t)u & ~(uintptr_t)31);\n",
            ),
        ),
        NATIVE, "n mod 8 = 4, a row of up that is no multiple of 32 bytes away from 0", (*VALUE, *MEMORY),
        "W13, E088: whole vectors loaded because 2 n is a multiple of 8: rows of up are not aligned",
        fails_when=lambda n: n % 8 == 4,
    ),
    Mutant(
        "silu-mul-sve-step-of-neon", "silu-mul-sve",
        (
            (
                f"i += v_lanes())\n{_GATED_STEP}",
                f"i += 4)\n{_GATED_STEP}",
            ),
        ),
        ("*@qemu:vl=512,gcc-O2",), "in place and n > 4, where vectors are longer than 4", VALUE,
        "W11: elements calculated again and again, which is only seen where the results lie in place of the operands",
        fails_when=lambda n: n > 4,
    ),
    Mutant(
        "silu-mul-copies-gate-only", "silu-mul-generic",
        (in_the_loop("i < inputs && ready;", "i < 1 && ready;"),),
        NATIVE, "y overlaps up in part", VALUE,
        "inputs aliasing outputs: only the first input is saved from what is written",
    ),
    Mutant(
        "silu-mul-y-by-way-of-dtype", "silu-mul-generic",
        (in_the_loop("results[o]);", "rounded(in[0].dtype, results[o]));"),),
        NATIVE, "gate of 16 bits and y of f32", VALUE,
        "E074: a result rounded to the dtype of the operands on its way to an output of f32",
    ),
    Mutant(
        "triton-silu-mul-sigmoid-from-one", "silu-mul-blocks",
        (
            (
                "return tl.div_rn(gate, 1.0 + tl.exp(-gate)) * up",
                "return gate * (1.0 - 1.0 / (1.0 + tl.exp(gate))) * up",
            ),
        ),
        INTERPRETED, "a gate of less than -2", VALUE, "E083: 1 less what is near 1 for a small sigmoid",
    ),
    Mutant(
        "silu-mul-backward-dup-of-rounded-silu", "silu-mul-backward-generic",
        (
            (
                _SILU_SLOPE_CALL,
                "static void of_bf16(const float *in, float *out) {\n"
                "    differentiate(in, out);\n"
                "    out[1] = in[2] * rounded(KF_BF16, in[0] / (1.0f + expf(-in[0])));\n}\n\n" + _SILU_SLOPE_CALL,
            ),
            ("call->axis, differentiate)", "call->axis, call->gate.dtype == KF_BF16 ? of_bf16 : differentiate)"),
        ),
        NATIVE, "gate of bf16", VALUE, "E091: the gradient by a silu that is rounded to the dtype",
    ),
    Mutant(
        "silu-mul-backward-quotient-overflows", "silu-mul-backward-generic",
        (
            (
                "s = 1.0f / (1.0f + expf(-gate));\n",
                "e = expf(-gate), s = 1.0f / (1.0f + e);\n",
            ),
            ("(s * (1.0f + gate * (1.0f - s)))", "(s + gate * (e / ((1.0f + e) * (1.0f + e))))"),
        ),
        NATIVE, "a gate of less than -88.7", VALUE, "E078: a quotient of two infinities",
    ),
    Mutant(
        "silu-mul-backward-second-output-not-seen", "silu-mul-backward-generic",
        (in_the_loop("&out[outputs - 1], &copies", "&out[0], &copies"),),
        NATIVE, "dup overlaps up in part", VALUE,
        "inputs aliasing outputs: only the first output is looked at before anything is written",
    ),
    Mutant(
        "triton-silu-mul-backward-gate-read-again", "silu-mul-backward-blocks",
        (
            (
                "tl.store(dup_ptr + place, dy * (gate * s), mask=inside)",
                "again = tl.load(gate_ptr + place, mask=inside, other=0.0).to(tl.float32)\n"
                "    tl.store(dup_ptr + place, dy * (again * s), mask=inside)",
            ),
        ),
        INTERPRETED, "dgate in place of gate", VALUE, "W11: an operand read again after a result is written over it",
    ),
)  # fmt: skip
