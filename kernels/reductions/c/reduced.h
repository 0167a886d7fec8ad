/* reduced.h: one number of each row, one element at a time. Any axis and strides. */
#ifndef KERNELS_REDUCTIONS_REDUCED_H
#define KERNELS_REDUCTIONS_REDUCED_H

#include "../../common/taken.h"

/* What becomes of a row; `given` is the parameter of the call, where it has one. */
typedef float row_reduction(const kf_tensor *x, const row *r, float given);

static inline float sum_of(const kf_tensor *x, const row *r) {
    float sum = 0.0f;
    for (int64_t i = 0; i < r->n; i++) sum += load(x, at(r, x, i));
    return sum;
}

/* A NaN is the greatest element. */
static inline float greatest_of(const kf_tensor *x, const row *r) {
    float greatest = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        const float value = load(x, at(r, x, i));
        if (!(value <= greatest)) greatest = value;
        if (greatest != greatest) break;
    }
    return greatest;
}

static inline int reduce(const kf_tensor *x, const kf_tensor *y, int axis, row_reduction *kernel, float given) {
    if (!fits_float(x) || !is_of_or_f32(y, x->dtype)) return KF_REJECTED;
    for (int a = 0; a < x->rank; a++)
        if (a != axis && x->shape[a] == 0) return KF_OK;
    row r = first_row(x, axis);
    do store(y, at_row(&r, y), kernel(x, &r, given));
    while (next_row(&r));
    return KF_OK;
}

#endif
