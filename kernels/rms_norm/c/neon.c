/* neon.c: two passes, four accumulators of four lanes, scalar tail onto the vector total. */
#include <arm_neon.h>

#include "rows.h"

static float neon_sum_of_squares(const float *x, size_t n) {
    float32x4_t a0 = vdupq_n_f32(0.0f), a1 = a0, a2 = a0, a3 = a0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const float32x4_t v0 = vld1q_f32(x + i), v1 = vld1q_f32(x + i + 4);
        const float32x4_t v2 = vld1q_f32(x + i + 8), v3 = vld1q_f32(x + i + 12);
        a0 = vfmaq_f32(a0, v0, v0);
        a1 = vfmaq_f32(a1, v1, v1);
        a2 = vfmaq_f32(a2, v2, v2);
        a3 = vfmaq_f32(a3, v3, v3);
    }
    float total = vaddvq_f32(vaddq_f32(vaddq_f32(a0, a1), vaddq_f32(a2, a3)));
    for (; i < n; i++) total += x[i] * x[i];
    return total;
}

static void neon_row(const float *x, float *y, size_t n, float eps) {
    const float rstd = reciprocal_rms(neon_sum_of_squares(x, n), n, eps);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vmulq_n_f32(vld1q_f32(x + i), rstd));
    for (; i < n; i++) y[i] = x[i] * rstd;
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_row(call, neon_row); }
