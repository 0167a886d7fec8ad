/* vector.c: layer_norm of rows of f32 by vectors of whatever instruction set it is built for: three passes over a row, one
 * accumulator, the tail as a vector of which some lanes are not the row's. */
#include "../../common/overlap.h"
#include "../../common/taken.h"
#include "../../common/vector.h"

static float mean_of(const float *x, size_t n) {
    vector sum = v_all(0.0f);
    for (size_t i = 0; i < n; i += v_lanes()) sum = v_add(sum, v_load(x + i, n - i, 0.0f));
    return v_sum(sum) / (float)n;
}

static float rstd_of(const float *x, size_t n, float mean, float eps) {
    vector sum = v_all(0.0f);
    for (size_t i = 0; i < n; i += v_lanes()) {
        /* Cut after the mean is taken off: beyond the row nothing deviates from it. */
        const vector centred = v_cut(v_subtract(v_load(x + i, n - i, 0.0f), v_all(mean)), n - i);
        sum = v_multiply_add(centred, centred, sum);
    }
    return 1.0f / sqrtf(v_sum(sum) / (float)n + eps);
}

static void normalise(const kf_layer_norm_call *call, const float *x, float *y, size_t n, float mean, float rstd) {
    const float *weight = call->weight.data, *bias = call->bias.data;
    for (size_t i = 0; i < n; i += v_lanes()) {
        const size_t left = n - i;
        vector value = v_multiply(v_subtract(v_load(x + i, left, 0.0f), v_all(mean)), v_all(rstd));
        if (weight != NULL) value = v_multiply(value, v_load(weight + i, left, 0.0f));
        if (bias != NULL) value = v_add(value, v_load(bias + i, left, 0.0f));
        v_store(y + i, left, value);
    }
}

static void each_row(const kf_layer_norm_call *call) {
    row r = first_row(&call->x, call->axis);
    do {
        const float *x = (const float *)call->x.data + at(&r, &call->x, 0);
        const float mean = mean_of(x, (size_t)r.n), rstd = rstd_of(x, (size_t)r.n, mean, call->eps);
        normalise(call, x, (float *)call->y.data + at(&r, &call->y, 0), (size_t)r.n, mean, rstd);
        if (is_present(&call->mean)) store(&call->mean, at_row(&r, &call->mean), mean);
        if (is_present(&call->rstd)) store(&call->rstd, at_row(&r, &call->rstd), rstd);
    } while (next_row(&r));
}

static bool is_taken(const kf_layer_norm_call *call) {
    return is_of(&call->x, KF_F32) && is_of(&call->y, KF_F32) && is_dense_column(&call->weight) &&
           is_dense_column(&call->bias) && is_dense(&call->mean) && is_dense(&call->rstd);
}

int kf_layer_norm(const kf_layer_norm_call *call) {
    if (!is_taken(call)) return KF_REJECTED;
    if (!has_elements(&call->x)) return KF_OK;
    if (!has_dense_rows(&call->x, call->axis) || !has_dense_rows(&call->y, call->axis)) return KF_REJECTED;
    if (overlaps(&call->x, &call->y)) return KF_REJECTED;
    each_row(call);
    return KF_OK;
}
