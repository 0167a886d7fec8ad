/* quantize_rows.c: the largest magnitude of each row first, then its codes. */
#include "scales.h"

static void write_codes(const kf_tensor *x, const kf_tensor *q, const row *r, float most, float scale) {
    for (int64_t i = 0; i < r->n; i++) {
        const float code = most == 0 ? 0.0f : nearbyintf(load(x, at(r, x, i)) / scale);
        ((int8_t *)q->data)[at(r, q, i)] = (int8_t)(isnan(code) ? 0 : code > 127 ? 127 : code < -128 ? -128 : code);
    }
}

int kf_quantize_rows(const kf_quantize_rows_call *call) {
    if (!is_of(&call->q, KF_INT8)) return KF_REJECTED;
    return over_rows(&call->x, &call->q, &call->scale, call->axis, 127.0f, call->of_zeros, write_codes);
}
