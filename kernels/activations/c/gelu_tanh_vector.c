/* gelu_tanh_vector.c: x / (1 + e^(-2 u)), which is the same by one exponential. */
#include "vector_elements.h"

static inline vector gelu(vector x) {
    const vector square = v_multiply(x, x);
    const vector u = v_multiply(v_multiply(v_all(0x1.988454p-1f), x), v_multiply_add(v_all(0.044715f), square, v_all(1.0f)));
    return v_divide(x, v_add(v_all(1.0f), v_exp(v_multiply(v_all(-2.0f), u))));
}

int kf_gelu_tanh(const kf_gelu_tanh_call *call) {
    const kf_tensor *x = &call->x, *y = &call->y;
    if (x->dtype != KF_F32 || y->dtype != KF_F32) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    if (!is_of_rows(x, call->axis) || !is_of_rows(y, call->axis) || overlaps(x, y)) return KF_REJECTED;
    row r = first_row(x, call->axis);
    const size_t n = (size_t)r.n;
    do {
        const float *from = row_of(x, &r);
        float *to = row_of(y, &r);
        for (size_t i = 0; i < n; i += v_lanes()) v_store(to + i, n - i, gelu(v_load(from + i, n - i, 0.0f)));
    } while (next_row(&r));
    return KF_OK;
}
