/* cross_entropy_backward.c: the gradient of one row after the other. */
#include "labels.h"

static float slope_of(const kf_cross_entropy_backward_call *call, float p, float lse, int64_t n, bool is_label) {
    if (call->z > 0) p += 2.0f * call->z * lse * p;
    if (call->smoothing > 0) p -= call->smoothing / (float)n;
    return is_label ? p - (1.0f - call->smoothing) : p;
}

int kf_cross_entropy_backward(const kf_cross_entropy_backward_call *call) {
    const kf_tensor *x = &call->x, *dx = &call->dx;
    if (!fits_float(x) || !is_of(dx, x->dtype) || !is_of_places(&call->label)) return KF_REJECTED;
    if (!is_of(&call->dloss, KF_F32) || !is_of(&call->lse, KF_F32)) return KF_REJECTED;
    if (!are_labels(x, call->axis, &call->label)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        const int64_t label = load_place(&call->label, at_row(&r, &call->label));
        const bool given = is_present(&call->lse), ignored = label == IGNORED;
        const float dloss = load(&call->dloss, at_row(&r, &call->dloss));
        const exponentials e = given ? (exponentials){0} : exponentials_of(x, &r);
        const float lse = given ? load(&call->lse, at_row(&r, &call->lse)) : lse_of(e);
        for (int64_t i = 0; i < r.n; i++) {
            const float value = load(x, at(&r, x, i));
            const float p = given ? expf(value - lse) : expf(value - e.greatest) / e.mass;
            store(dx, at(&r, dx, i), ignored ? 0.0f : dloss * slope_of(call, p, lse, r.n, i == label));
        }
    } while (next_row(&r));
    return KF_OK;
}
