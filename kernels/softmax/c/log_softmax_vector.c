/* log_softmax_vector.c: the exponentials are added up and not kept. */
#include "vector_rows.h"

static void log_softmax_row(const float *x, float *y, size_t n) {
    const vector greatest = v_all(greatest_of(x, n));
    vector sum = v_all(0.0f);
    for (size_t i = 0; i < n; i += v_lanes()) {
        const vector e = v_exp(v_subtract(v_load(x + i, n - i, 0.0f), greatest));
        sum = v_add(sum, v_cut(e, n - i));
    }
    const vector logarithm = v_all(logf(v_sum(sum)));
    for (size_t i = 0; i < n; i += v_lanes()) {
        const vector shifted = v_subtract(v_load(x + i, n - i, 0.0f), greatest);
        v_store(y + i, n - i, v_subtract(shifted, logarithm));
    }
}

int kf_log_softmax(const kf_log_softmax_call *call) {
    return over_rows(&call->x, &call->y, call->axis, log_softmax_row);
}
