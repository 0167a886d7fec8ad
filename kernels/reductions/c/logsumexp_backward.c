/* logsumexp_backward.c: the logarithm as it is given, or formed again, then the exponentials. */
#include "gradients.h"

static float logarithm_of(const kf_tensor *x, const row *r) {
    const float greatest = greatest_of(x, r);
    float mass = 0.0f;
    for (int64_t i = 0; i < r->n; i++) mass += expf(load(x, at(r, x, i)) - greatest);
    return logf(mass) + greatest;
}

int kf_logsumexp_backward(const kf_logsumexp_backward_call *call) {
    const kf_tensor *x = &call->x, *dy = &call->dy, *y = &call->y, *dx = &call->dx;
    if (!takes_gradient(x, dy, dx) || !is_of_or_f32(y, x->dtype)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        const float worth = load(dy, at_row(&r, dy));
        const float logarithm = is_present(y) ? load(y, at_row(&r, y)) : logarithm_of(x, &r);
        for (int64_t i = 0; i < r.n; i++) store(dx, at(&r, dx, i), worth * expf(load(x, at(&r, x, i)) - logarithm));
    } while (next_row(&r));
    return KF_OK;
}
