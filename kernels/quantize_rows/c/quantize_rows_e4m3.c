/* quantize_rows_e4m3.c: the largest magnitude of each row first, then its codes. */
#include "scales.h"

static void write_codes(const kf_tensor *x, const kf_tensor *q, const row *r, float most, float scale) {
    for (int64_t i = 0; i < r->n; i++) {
        const float ratio = most == 0 ? 0.0f : load(x, at(r, x, i)) / scale;
        store(q, at(r, q, i), ratio > 448 ? 448 : ratio < -448 ? -448 : ratio);
    }
}

int kf_quantize_rows_e4m3(const kf_quantize_rows_e4m3_call *call) {
    if (!is_of(&call->q, KF_E4M3FN)) return KF_REJECTED;
    return over_rows(&call->x, &call->q, &call->scale, call->axis, 448.0f, call->of_zeros, write_codes);
}
