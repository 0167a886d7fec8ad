/* quantize_nvfp4.c: the largest magnitude of each block first, then its scale, then its codes, two of which are a byte. */
#include "blocks.h"

/* A float of 8 bits. A NaN stays one. */
static float stored_of(float units, float least_scale) {
    const float low = units < least_scale ? least_scale : units;
    return rounded(KF_E4M3FN, low > 448 ? 448 : low);
}

/* The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, the even code of two; that of NaN is the largest. */
static int code_of(float ratio) {
    const float size = fabsf(ratio);
    if (isnan(size)) return 7;
    return (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) + (size >= 3.5f) + (size > 5.0f);
}

static int nibble_of(float x, float stored, float step) {
    return (stored == 0 ? 0 : code_of(x / step)) | (signbit(x) ? 8 : 0);
}

static void write_codes(const kf_tensor *x, const kf_tensor *q, const row *r, block b, float stored, float step) {
    for (int64_t i = b.first; i < b.end; i += 2) {
        const int low = nibble_of(load(x, at(r, x, i)), stored, step);
        const int high = i + 1 < b.end ? nibble_of(load(x, at(r, x, i + 1)), stored, step) : 0;
        ((uint8_t *)q->data)[at_own(r, q, i / 2)] = (uint8_t)(low | high << 4);
    }
}

int kf_quantize_nvfp4(const kf_quantize_nvfp4_call *call) {
    const kf_tensor *x = &call->x, *q = &call->q, *scale = &call->scale;
    if (!fits_float(x) || !is_of(&call->tensor_scale, KF_F32) || !is_of(q, KF_UINT8) || !is_of(scale, KF_E4M3FN)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    const float tensor_scale = load(&call->tensor_scale, 0);
    row r = first_row(x, call->axis);
    do {
        for (int64_t number = 0; number < scale->shape[scale->rank - 1]; number++) {
            const block b = block_of(&r, number, 16);
            const float stored = stored_of(most_of(x, &r, b) / 6.0f / tensor_scale, call->least_scale);
            store(scale, at_own(&r, scale, number), stored);
            write_codes(x, q, &r, b, stored, stored * tensor_scale);
        }
    } while (next_row(&r));
    return KF_OK;
}
