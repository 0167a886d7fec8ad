/* grouped_matmul.c: one element of c at a time, the terms of its group one after the other. Any strides and dtypes. */
#include "../../common/taken.h"

static float product(const kf_tensor *a, const kf_tensor *b, int64_t m, int64_t n, int64_t first, int64_t end) {
    float sum = 0.0f;
    for (int64_t k = first; k < end; k++)
        sum += load(a, m * a->strides[0] + k * a->strides[1]) * load(b, k * b->strides[0] + n * b->strides[1]);
    return sum;
}

static int64_t end_of(const kf_tensor *offs, int64_t group) {
    return group < 0 ? 0 : load_place(offs, group * offs->strides[0]);
}

int kf_grouped_matmul(const kf_grouped_matmul_call *call) {
    const kf_tensor *a = &call->a, *b = &call->b, *offs = &call->offs, *collected = &call->collected, *c = &call->c;
    if (!fits_float(a) || !is_of(b, a->dtype) || !is_of_or_f32(collected, a->dtype)) return KF_REJECTED;
    if (!is_of_or_f32(c, a->dtype) || !is_of_places(offs) || !are_places(offs, 0, a->shape[1] + 1)) return KF_REJECTED;
    for (int64_t g = 0; g < c->shape[0]; g++) {
        const int64_t first = end_of(offs, g - 1), end = end_of(offs, g);
        for (int64_t m = 0; m < c->shape[1]; m++) {
            for (int64_t n = 0; n < c->shape[2]; n++) {
                float z = product(a, b, m, n, first, end);
                if (is_present(collected))
                    z += load(collected, g * collected->strides[0] + m * collected->strides[1] + n * collected->strides[2]);
                store(c, g * c->strides[0] + m * c->strides[1] + n * c->strides[2], z);
            }
        }
    }
    return KF_OK;
}
