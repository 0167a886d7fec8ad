/* rows.h: what softmax and log_softmax share, one element at a time. Any axis and strides. */
#ifndef KERNELS_SOFTMAX_ROWS_H
#define KERNELS_SOFTMAX_ROWS_H

#include "../../common/overlap.h"
#include "../../common/taken.h"

/* A NaN is never the greatest element; it makes the mass NaN. */
static inline float greatest_of(const kf_tensor *x, const row *r) {
    float greatest = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        const float value = load(x, at(r, x, i));
        if (value > greatest) greatest = value;
    }
    return greatest;
}

static inline float mass_of(const kf_tensor *x, const row *r, float greatest) {
    float mass = 0.0f;
    for (int64_t i = 0; i < r->n; i++) mass += expf(load(x, at(r, x, i)) - greatest);
    return mass;
}

/* One row of y from the same row of x, element i written after it was read for the last time. */
typedef void row_kernel(const kf_tensor *x, const kf_tensor *y, const row *r);

static inline int over_rows(const kf_tensor *given, const kf_tensor *y, int axis, row_kernel *kernel) {
    if (!fits_float(given) || !is_of_or_f32(y, given->dtype)) return KF_REJECTED;
    if (!has_elements(given)) return KF_OK;
    kf_tensor x = *given;
    void *copy;
    if (!detach(&x, y, y, &copy)) return KF_REJECTED;
    row r = first_row(&x, axis);
    do kernel(&x, y, &r);
    while (next_row(&r));
    free(copy);
    return KF_OK;
}

#endif
