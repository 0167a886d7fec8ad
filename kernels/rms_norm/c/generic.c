/* generic.c: one accumulator, multiply then add. */
#include "rows.h"

static void generic_row(const float *x, float *y, size_t n, float eps) {
    float total = 0.0f;
    for (size_t i = 0; i < n; i++) total += x[i] * x[i];
    const float rstd = reciprocal_rms(total, n, eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * rstd;
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_row(call, generic_row); }
