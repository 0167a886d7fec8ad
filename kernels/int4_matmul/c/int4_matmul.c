/* int4_matmul.c: one element of c at a time, the sum of each group times its scale. Any strides. */
#include "../../common/taken.h"

static float group_of(const kf_tensor *x, const kf_tensor *q, int64_t m, int64_t n, int64_t g, int zero_point) {
    const uint8_t *bytes = (const uint8_t *)q->data + n * q->strides[0] + g * q->strides[1];
    float sum = 0.0f;
    for (int64_t k = 0; k < x->shape[2]; k++) {
        const int byte = bytes[k / 2 * q->strides[2]], code = k % 2 == 0 ? byte & 15 : byte >> 4;
        sum += load(x, m * x->strides[0] + g * x->strides[1] + k * x->strides[2]) * (float)(code - zero_point);
    }
    return sum;
}

static int zero_of(const kf_tensor *zero_point, int64_t n, int64_t g) {
    return is_present(zero_point) ? ((const int8_t *)zero_point->data)[n * zero_point->strides[0] + g * zero_point->strides[1]] : 8;
}

int kf_int4_matmul(const kf_int4_matmul_call *call) {
    const kf_tensor *x = &call->x, *q = &call->q, *scale = &call->scale, *zero_point = &call->zero_point, *c = &call->c;
    if (!fits_float(x) || !is_of(q, KF_INT8) || !is_of_or_f32(scale, x->dtype) || !is_of_or_f32(c, x->dtype)) return KF_REJECTED;
    if (!is_of(zero_point, KF_INT8)) return KF_REJECTED;
    for (int64_t m = 0; m < c->shape[0]; m++)
        for (int64_t n = 0; n < c->shape[1]; n++) {
            float sum = 0.0f;
            for (int64_t g = 0; g < x->shape[1]; g++)
                sum += group_of(x, q, m, n, g, zero_of(zero_point, n, g)) * load(scale, n * scale->strides[0] + g * scale->strides[1]);
            store(c, m * c->strides[0] + n * c->strides[1], sum);
        }
    return KF_OK;
}
