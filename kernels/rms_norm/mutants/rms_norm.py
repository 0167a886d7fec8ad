"""Planted defects in the rms_norm kernels, each modelled on a real one."""

from __future__ import annotations

from fuzz import Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="sve-tail-dont-care",
        base="sve",
        edits=(("a0 = svmla_f32_m(rest, a0, v, v);", "a0 = svmla_f32_x(rest, a0, v, v);"),),
        targets=("*@qemu:vl=*,gcc-O0",),
        trigger="a tail that leaves lanes inactive after an earlier vector filled them: n > lanes, n mod lanes != 0",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="tract's SVE kernel: don't-care predication in the tail; gcc -O0 picks the form that clears lanes",
        explained_as=("optimisation = -O0", "n mod lanes != 0", "n / lanes >= 1"),
    ),
    Mutant(
        name="avx512-tail-dropped-at-63",
        base="avx512",
        edits=(("if (b.n % 64 != 0)", "if (b.n % 64 != 0 && b.n % 64 != 63)"),),
        targets=("*@native:*",),
        trigger="n mod 64 = 63",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="tail sizes that tract's fixed test lengths (residues 0 and 17) do not reach",
        fails_when=lambda n: n % 64 == 63,
        explained_as=("n mod 64 = 63",),
    ),
    Mutant(
        name="avx2-tail-dropped-at-31",
        base="avx2",
        edits=(("if (b.n % 32 != 0)", "if (b.n % 32 != 0 && b.n % 32 != 31)"),),
        targets=("*@native:*",),
        trigger="n mod 32 = 31",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="tail sizes that tract's fixed test lengths (residues 0 and 17) do not reach",
        fails_when=lambda n: n % 32 == 31,
        explained_as=("n mod 32 = 31",),
    ),
    Mutant(
        name="generic-divides-by-n-plus-1",
        base="generic",
        edits=(("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n + 1, eps)"),),
        targets=("*@native:*",),
        trigger="any row that is not zero; the smaller n, the larger the error",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="passes the published tolerances of FlyDSL, TileGym and quack in 16 bits",
    ),
    Mutant(
        name="avx2-drops-eps",
        base="avx2",
        edits=(("b.n, b.eps)", "b.n, 0.0f * b.eps)"),),
        targets=("*@native:*", "*@qemu:*"),
        trigger="mean square comparable to eps or below, zero rows",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="passes every published suite surveyed: their rows have mean square 1 and eps 1e-5",
        explained_as=("mean square",),
    ),
    Mutant(
        name="neon-eps-outside-root",
        base="neon",
        edits=(
            (
                "reciprocal_rms(neon_sum_of_squares(x, n), n, eps)",
                "1.0f / (sqrtf(neon_sum_of_squares(x, n) / (float)n) + eps)",
            ),
        ),
        targets=("*@qemu:*",),
        trigger="root mean square comparable to eps, or eps above about 1e-6 of it",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE", "FAIL_LAW"),
        provenance="passes every published suite surveyed",
        explained_as=("ulp of the mean square",),
    ),
    Mutant(
        name="generic-writes-past-row",
        base="generic",
        edits=(
            (
                "for (size_t i = 0; i < n; i++) y[i] = x[i] * rstd;",
                "for (size_t i = 0; i <= n; i++) y[i] = i < n ? x[i] * rstd : 0.0f;",
            ),
        ),
        targets=("*@native:*",),
        trigger="f32; a gap after a row, the last row, or y in the place of x, where the next row is spoilt",
        caught_as=("FAIL_MEMORY", "CRASH", "FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="rows packed one after the other hide it: only the last one ends at memory of somebody else",
        explained_as=("passes at dtype = f16",),
    ),
    Mutant(
        name="generic-takes-any-strides",
        base="generic",
        edits=(
            (
                "return each_row(call, generic_row);",
                "return is_empty(&call->x) ? KF_OK : in_blocks(call, row_by_row, generic_row);",
            ),
        ),
        targets=("*@native:*",),
        trigger="rows that are not the last axis, or whose elements are not neighbours",
        caught_as=("FAIL_ACCEPTED_INVALID", "FAIL_MEMORY"),
        provenance="kernels that assert contiguity, and lose the check with the assertions",
    ),
    Mutant(
        name="avx512-rsqrt-estimate",
        base="avx512",
        edits=(
            (
                "for (size_t r = 0; r < b.rows; r += 8) reciprocal_rms_of_eight(totals + r, rstd + r, b.n, b.eps);",
                "for (size_t r = 0; r < b.rows; r++) {\n"
                "        const __m512 mean = _mm512_set1_ps(totals[r] / (float)b.n + b.eps);\n"
                "        rstd[r] = _mm512_cvtss_f32(_mm512_rsqrt14_ps(mean));\n    }",
            ),
        ),
        targets=("*@native:*",),
        trigger="f32, nearly every row: the estimate is good to 2^-14",
        caught_as=("FAIL_NUMERIC", "FAIL_NONFINITE"),
        provenance="an estimate without its Newton step; tract's 1e-4 tolerance passes a relative error of 2^-17",
    ),
)
