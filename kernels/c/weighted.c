/* weighted.c: rms_norm with weight, offset and stored rstd, one element at a time. Any dtypes, axis and strides. */
#include "overlap.h"

static real reciprocal_rms_of(const kf_rms_norm_call *call, const row *r) {
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const real x = load(&call->x, at(r, &call->x, i));
        total += x * x;
    }
    return 1 / root(total / (real)r->n + (real)call->eps);
}

static void scale_row(const kf_rms_norm_call *call, const row *r, real rstd) {
    for (int64_t i = 0; i < r->n; i++) {
        real y = load(&call->x, at(r, &call->x, i)) * rstd;
#ifdef CAST_FIRST
        y = rounded(call->x.dtype, y);
#endif
        if (is_present(&call->weight)) y *= scale_of(&call->weight, i, call->offset);
        store(&call->y, at(r, &call->y, i), y);
    }
}

static void each_row(const kf_rms_norm_call *call) {
    row r = first_row(&call->x, call->axis);
    do {
        const real rstd = reciprocal_rms_of(call, &r);
        scale_row(call, &r, rstd);
        if (is_present(&call->rstd)) store(&call->rstd, at_row(&r, &call->rstd), rstd);
    } while (next_row(&r));
}

int kf_rms_norm(const kf_rms_norm_call *given) {
    if (!has_elements(&given->x)) return KF_OK;
    kf_rms_norm_call call = *given;
    void *copy;
    if (!detach(&call.x, &call.y, &call.y, &copy)) return KF_REJECTED;
    each_row(&call);
    free(copy);
    return KF_OK;
}
