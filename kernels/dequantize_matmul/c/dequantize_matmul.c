/* dequantize_matmul.c: one element of c at a time, the sum of each group times its scale. Any strides. */
#include "../../common/taken.h"

static float group_of(const kf_tensor *x, const kf_tensor *q, int64_t m, int64_t n, int64_t g) {
    const int8_t *codes = (const int8_t *)q->data + n * q->strides[0] + g * q->strides[1];
    float sum = 0.0f;
    for (int64_t k = 0; k < x->shape[2]; k++)
        sum += load(x, m * x->strides[0] + g * x->strides[1] + k * x->strides[2]) * (float)codes[k * q->strides[2]];
    return sum;
}

int kf_dequantize_matmul(const kf_dequantize_matmul_call *call) {
    const kf_tensor *x = &call->x, *q = &call->q, *scale = &call->scale, *c = &call->c;
    if (!fits_float(x) || !is_of(q, KF_INT8) || !is_of_or_f32(scale, x->dtype) || !is_of_or_f32(c, x->dtype)) return KF_REJECTED;
    for (int64_t m = 0; m < c->shape[0]; m++)
        for (int64_t n = 0; n < c->shape[1]; n++) {
            float sum = 0.0f;
            for (int64_t g = 0; g < x->shape[1]; g++)
                sum += group_of(x, q, m, n, g) * load(scale, n * scale->strides[0] + g * scale->strides[1]);
            store(c, m * c->strides[0] + n * c->strides[1], sum);
        }
    return KF_OK;
}
