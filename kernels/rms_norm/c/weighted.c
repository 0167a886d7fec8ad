/* weighted.c: rms_norm with weight, offset and stored rstd, one element at a time. Any axis and strides, and of dtypes
 * and shapes of the weight what is_taken says. */
#include "../../common/overlap.h"

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
        if (is_present(&call->weight)) y *= scale_of(r, &call->weight, i, call->weight_offset);
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

#ifdef CAST_FIRST
enum { WEIGHT_RANK = 1 };
#else
enum { WEIGHT_RANK = 2 };
#endif

static bool is_x_or_f32(const kf_rms_norm_call *call, const kf_tensor *t) {
    return t->dtype == call->x.dtype || t->dtype == KF_F32;
}

static bool is_taken(const kf_rms_norm_call *call) {
    if (call->x.dtype == KF_F64 || !is_x_or_f32(call, &call->y)) return false;
    if (is_present(&call->rstd) && call->rstd.dtype != KF_F32) return false;
    return !is_present(&call->weight) || (is_x_or_f32(call, &call->weight) && call->weight.rank <= WEIGHT_RANK);
}

int kf_rms_norm(const kf_rms_norm_call *given) {
    if (!has_elements(&given->x)) return KF_OK;
    if (!is_taken(given)) return KF_REJECTED;
    kf_rms_norm_call call = *given;
    void *copy;
    if (!detach(&call.x, &call.y, &call.y, &copy)) return KF_REJECTED;
    each_row(&call);
    free(copy);
    return KF_OK;
}
