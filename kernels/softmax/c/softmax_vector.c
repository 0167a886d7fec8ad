/* softmax_vector.c: the exponentials are kept in y until their sum is known. */
#include "vector_rows.h"

static void softmax_row(const float *x, float *y, size_t n) {
    const vector greatest = v_all(greatest_of(x, n));
    vector sum = v_all(0.0f);
    for (size_t i = 0; i < n; i += v_lanes()) {
        /* Cut: beyond the row are zeros, whose exponentials are none. */
        const vector e = v_cut(v_exp(v_subtract(v_load(x + i, n - i, 0.0f), greatest)), n - i);
        v_store(y + i, n - i, e);
        sum = v_add(sum, e);
    }
    const vector mass = v_all(v_sum(sum));
    for (size_t i = 0; i < n; i += v_lanes()) v_store(y + i, n - i, v_divide(v_load(y + i, n - i, 0.0f), mass));
}

int kf_softmax(const kf_softmax_call *call) { return over_rows(&call->x, &call->y, call->axis, softmax_row); }
