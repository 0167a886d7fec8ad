/* silu_mul_vector.c: the same by vectors, the exponential a polynomial. */
#include "vector_elements.h"

static inline vector gated(vector gate, vector up) {
    const vector e = v_exp(v_subtract(v_all(0.0f), gate));
    return v_multiply(v_divide(gate, v_add(v_all(1.0f), e)), up);
}

int kf_silu_mul(const kf_silu_mul_call *call) {
    const kf_tensor *gate = &call->gate, *up = &call->up, *y = &call->y;
    if (gate->dtype != KF_F32 || up->dtype != KF_F32 || y->dtype != KF_F32) return KF_REJECTED;
    if (!has_elements(gate)) return KF_OK;
    if (!is_of_rows(gate, call->axis) || !is_of_rows(up, call->axis) || !is_of_rows(y, call->axis)) return KF_REJECTED;
    if (overlaps(gate, y) || overlaps(up, y)) return KF_REJECTED;
    row r = first_row(gate, call->axis);
    const size_t n = (size_t)r.n;
    do {
        const float *g = row_of(gate, &r), *u = row_of(up, &r);
        float *to = row_of(y, &r);
        for (size_t i = 0; i < n; i += v_lanes())
            v_store(to + i, n - i, gated(v_load(g + i, n - i, 0.0f), v_load(u + i, n - i, 0.0f)));
    } while (next_row(&r));
    return KF_OK;
}
