/* row_sum_backward.c: the same at each element. */
#include "gradients.h"

static void gradient(const kf_tensor *x, const kf_tensor *dx, const row *r, float dy, float given) {
    (void)x, (void)given;
    fill_row(dx, r, dy);
}

int kf_row_sum_backward(const kf_row_sum_backward_call *call) {
    return differentiate(&call->x, &call->dy, &call->dx, call->axis, gradient, 0.0f);
}
