/* scaled_matmul.c: one element of c at a time, its terms added as integers: exact up to k = 2^17. */
#include "../../common/taken.h"

static int32_t count(const kf_tensor *a, const kf_tensor *b, int64_t row, int64_t column) {
    const int8_t *left = (const int8_t *)a->data + row * a->strides[0];
    const int8_t *right = (const int8_t *)b->data + column * b->strides[1];
    int32_t sum = 0;
    for (int64_t i = 0; i < a->shape[1]; i++) sum += (int32_t)left[i * a->strides[1]] * right[i * b->strides[0]];
    return sum;
}

int kf_scaled_matmul(const kf_scaled_matmul_call *call) {
    const kf_tensor *floats[] = {&call->scale_a, &call->scale_b, &call->bias, &call->c};
    for (int i = 0; i < 4; i++) {
        if (!fits_float(floats[i])) return KF_REJECTED;
    }
    const kf_tensor *a = &call->a, *b = &call->b, *c = &call->c;
    for (int64_t m = 0; m < c->shape[0]; m++) {
        const float row = load(&call->scale_a, m * call->scale_a.strides[0]);
        for (int64_t n = 0; n < c->shape[1]; n++) {
            float z = (float)count(a, b, m, n) * row * load(&call->scale_b, n * call->scale_b.strides[0]);
            if (is_present(&call->bias)) z += load(&call->bias, n * call->bias.strides[0]);
            store(c, m * c->strides[0] + n * c->strides[1], z);
        }
    }
    return KF_OK;
}
