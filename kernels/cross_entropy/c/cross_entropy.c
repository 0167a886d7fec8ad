/* cross_entropy.c: the loss of one row after the other, then the mean of those that count. */
#include "labels.h"

static float loss_of(const kf_cross_entropy_call *call, const row *r, int64_t label, float lse) {
    const kf_tensor *x = &call->x;
    float loss = lse - load(x, at(r, x, label));
    if (call->smoothing > 0) {
        float sum = 0.0f;
        for (int64_t i = 0; i < r->n; i++) sum += load(x, at(r, x, i));
        loss = (1.0f - call->smoothing) * loss + call->smoothing * (lse - sum / (float)r->n);
    }
    return call->z > 0 ? loss + call->z * (lse * lse) : loss;
}

int kf_cross_entropy(const kf_cross_entropy_call *call) {
    const kf_tensor *x = &call->x;
    if (!fits_float(x) || !is_of_or_f32(&call->loss, x->dtype) || !is_of_places(&call->label)) return KF_REJECTED;
    if (!is_of(&call->lse, KF_F32) || !is_of(&call->mean, KF_F32)) return KF_REJECTED;
    if (!are_labels(x, call->axis, &call->label)) return KF_REJECTED;
    float sum = 0.0f, count = 0.0f;
    row r = first_row(x, call->axis);
    if (has_elements(x)) do {
        const int64_t label = load_place(&call->label, at_row(&r, &call->label));
        const float lse = lse_of(exponentials_of(x, &r));
        const float loss = label == IGNORED ? 0.0f : loss_of(call, &r, label, lse);
        store(&call->loss, at_row(&r, &call->loss), loss);
        if (is_present(&call->lse)) store(&call->lse, at_row(&r, &call->lse), lse);
        sum += loss;
        count += label != IGNORED;
    } while (next_row(&r));
    if (is_present(&call->mean)) store(&call->mean, 0, sum / (count < call->fewest ? call->fewest : count));
    return KF_OK;
}
