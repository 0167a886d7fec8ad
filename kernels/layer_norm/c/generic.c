/* generic.c: layer_norm in three passes over each row, one element at a time: the mean, the mean square of what lies
 * beside it, the result. Any axis and strides; of dtypes what is_taken says. */
#include "../../common/overlap.h"
#include "../../common/taken.h"

static real mean_of(const kf_layer_norm_call *call, const row *r) {
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) total += load(&call->x, at(r, &call->x, i));
    return total / (real)r->n;
}

static real rstd_of(const kf_layer_norm_call *call, const row *r, real mean) {
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const real centred = load(&call->x, at(r, &call->x, i)) - mean;
        total += centred * centred;
    }
    return 1 / root(total / (real)r->n + (real)call->eps);
}

static void normalise_row(const kf_layer_norm_call *call, const row *r, real mean, real rstd) {
    for (int64_t i = 0; i < r->n; i++) {
        real y = (load(&call->x, at(r, &call->x, i)) - mean) * rstd;
        if (is_present(&call->weight)) y *= load(&call->weight, at_column(r, &call->weight, i));
        if (is_present(&call->bias)) y += load(&call->bias, at_column(r, &call->bias, i));
        store(&call->y, at(r, &call->y, i), y);
    }
}

static void each_row(const kf_layer_norm_call *call) {
    row r = first_row(&call->x, call->axis);
    do {
        const real mean = mean_of(call, &r), rstd = rstd_of(call, &r, mean);
        normalise_row(call, &r, mean, rstd);
        if (is_present(&call->mean)) store(&call->mean, at_row(&r, &call->mean), mean);
        if (is_present(&call->rstd)) store(&call->rstd, at_row(&r, &call->rstd), rstd);
    } while (next_row(&r));
}

static bool is_taken(const kf_layer_norm_call *call) {
    const kf_dtype x = call->x.dtype;
    return fits_float(&call->x) && is_of_or_f32(&call->y, x) && is_of(&call->mean, KF_F32) && is_of(&call->rstd, KF_F32) &&
           is_of_or_f32(&call->weight, x) && is_column(&call->weight) && is_of_or_f32(&call->bias, x) && is_column(&call->bias);
}

int kf_layer_norm(const kf_layer_norm_call *given) {
    if (!is_taken(given)) return KF_REJECTED;
    if (!has_elements(&given->x)) return KF_OK;
    kf_layer_norm_call call = *given;
    void *copy;
    if (!detach(&call.x, &call.y, &call.y, &copy)) return KF_REJECTED;
    each_row(&call);
    free(copy);
    return KF_OK;
}
