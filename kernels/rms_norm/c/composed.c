/* composed.c: mean of squares, plus eps, reciprocal root, multiply: four passes over whole tensors, as a graph of
 * separate operators would run it. Any axis, any strides. */
#include "rows.h"

static float load(const kf_tensor *t, int64_t offset) {
    if (t->dtype == KF_F32) return ((const float *)t->data)[offset];
    return half_to_float(((const uint16_t *)t->data)[offset]);
}

static void store(const kf_tensor *t, int64_t offset, float value) {
    if (t->dtype == KF_F32) ((float *)t->data)[offset] = value;
    else ((uint16_t *)t->data)[offset] = float_to_half(value);
}

static size_t count_rows(const kf_rms_norm_call *call) {
    size_t rows = 1;
    for (int axis = 0; axis < call->x.rank; axis++)
        if (axis != call->axis) rows *= (size_t)call->x.shape[axis];
    return rows;
}

static void mean_of_squares(const kf_rms_norm_call *call, float *mean) {
    const int64_t n = call->x.shape[call->axis], stride = call->x.strides[call->axis];
    const float scale = 1.0f / (float)n;
    int64_t index[KF_MAX_RANK] = {0};
    do {
        const int64_t start = offset_of(&call->x, index);
        float total = 0.0f;
        for (int64_t i = 0; i < n; i++) {
            const float value = load(&call->x, start + i * stride);
            total += value * value;
        }
        *mean++ = total * scale;
    } while (next_position(&call->x, call->axis, index));
}

static void add_eps(float *values, size_t rows, float eps) {
    for (size_t row = 0; row < rows; row++) values[row] += eps;
}

static void reciprocal_roots(float *values, size_t rows) {
    for (size_t row = 0; row < rows; row++) values[row] = 1.0f / sqrtf(values[row]);
}

static void multiply(const kf_rms_norm_call *call, const float *rstd) {
    const kf_tensor *x = &call->x, *y = &call->y;
    int64_t index[KF_MAX_RANK] = {0};
    do {
        const int64_t from = offset_of(x, index), to = offset_of(y, index);
        for (int64_t i = 0; i < x->shape[call->axis]; i++)
            store(y, to + i * y->strides[call->axis], load(x, from + i * x->strides[call->axis]) * *rstd);
        rstd++;
    } while (next_position(x, call->axis, index));
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (!is_plain(call) || call->axis < 0 || call->axis >= call->x.rank) return KF_REJECTED;
    if (is_empty(&call->x)) return KF_OK;
    const size_t rows = count_rows(call);
    float *values = malloc(rows * sizeof *values);
    if (values == NULL) return KF_REJECTED;
    mean_of_squares(call, values);
    add_eps(values, rows, call->eps);
    reciprocal_roots(values, rows);
    multiply(call, values);
    free(values);
    return KF_OK;
}
