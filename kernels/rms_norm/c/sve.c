/* sve.c: any vector length. Four accumulators; the tail goes into the first one under a predicate. */
#include <arm_sve.h>

#include "rows.h"

static float sve_sum_of_squares(const float *x, size_t n) {
    const svbool_t all = svptrue_b32();
    const size_t lanes = svcntw();
    svfloat32_t a0 = svdup_f32(0.0f), a1 = a0, a2 = a0, a3 = a0;
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        const svfloat32_t v0 = svld1_f32(all, x + i), v1 = svld1_f32(all, x + i + lanes);
        const svfloat32_t v2 = svld1_f32(all, x + i + 2 * lanes), v3 = svld1_f32(all, x + i + 3 * lanes);
        a0 = svmla_f32_x(all, a0, v0, v0);
        a1 = svmla_f32_x(all, a1, v1, v1);
        a2 = svmla_f32_x(all, a2, v2, v2);
        a3 = svmla_f32_x(all, a3, v3, v3);
    }
    for (; i < n; i += lanes) {
        const svbool_t rest = svwhilelt_b32_u64(i, n);
        const svfloat32_t v = svld1_f32(rest, x + i);
        /* Merging: the inactive lanes hold partial sums and must keep them. */
        a0 = svmla_f32_m(rest, a0, v, v);
    }
    return svaddv_f32(all, svadd_f32_x(all, svadd_f32_x(all, a0, a1), svadd_f32_x(all, a2, a3)));
}

static void sve_row(const float *x, float *y, size_t n, float eps) {
    const float rstd = reciprocal_rms(sve_sum_of_squares(x, n), n, eps);
    for (size_t i = 0; i < n; i += svcntw()) {
        const svbool_t active = svwhilelt_b32_u64(i, n);
        svst1_f32(active, y + i, svmul_n_f32_x(active, svld1_f32(active, x + i), rstd));
    }
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_row(call, sve_row); }
