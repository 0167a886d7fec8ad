/* group_norm.c: three passes over each group, one element at a time. */
#include "groups.h"

static void normalise(const kf_group_norm_call *call, const group *r) {
    const kf_tensor *x = &call->x, *y = &call->y, *weight = &call->weight, *bias = &call->bias;
    const float mean = mean_of(x, r), rstd = rstd_of(x, r, mean, call->eps);
    for (int64_t c = 0; c < r->channels; c++) {
        for (int64_t s = 0; s < r->places; s++) {
            float value = (load(x, at_place(r, x, c, s)) - mean) * rstd;
            if (is_present(weight)) value *= load(weight, at_channel(r, weight, c));
            if (is_present(bias)) value += load(bias, at_channel(r, bias, c));
            store(y, at_place(r, y, c, s), value);
        }
    }
    if (is_present(&call->mean)) store(&call->mean, at_group(r, &call->mean), mean);
    if (is_present(&call->rstd)) store(&call->rstd, at_group(r, &call->rstd), rstd);
}

int kf_group_norm(const kf_group_norm_call *call) {
    const kf_tensor *x = &call->x;
    if (!fits_float(x) || !is_of_or_f32(&call->weight, x->dtype) || !is_of_or_f32(&call->bias, x->dtype)) return KF_REJECTED;
    if (!is_of_or_f32(&call->y, x->dtype) || !is_of(&call->mean, KF_F32) || !is_of(&call->rstd, KF_F32)) return KF_REJECTED;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t g = 0; g < x->shape[1]; g++) {
            const group r = group_of(x, b, g);
            normalise(call, &r);
        }
    return KF_OK;
}
