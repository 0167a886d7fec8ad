/* row_var_backward.c: the mean first, then what lies beside it. */
#include "gradients.h"

static void gradient(const kf_tensor *x, const kf_tensor *dx, const row *r, float dy, float correction) {
    const float mean = sum_of(x, r) / (float)r->n, factor = 2.0f * dy / ((float)r->n - correction);
    for (int64_t i = 0; i < r->n; i++) store(dx, at(r, dx, i), factor * (load(x, at(r, x, i)) - mean));
}

int kf_row_var_backward(const kf_row_var_backward_call *call) {
    return differentiate(&call->x, &call->dy, &call->dx, call->axis, gradient, call->correction);
}
