/* vector_rows.h: what softmax and log_softmax of rows of f32 share, by vectors of whatever instruction set they are built for:
 * one accumulator, the tail as a vector of which some lanes are not the row's. */
#ifndef KERNELS_SOFTMAX_VECTOR_ROWS_H
#define KERNELS_SOFTMAX_VECTOR_ROWS_H

#include "../../common/overlap.h"
#include "../../common/taken.h"
#include "../../common/vector.h"

static inline float greatest_of(const float *x, size_t n) {
    vector greatest = v_all(-INFINITY);
    for (size_t i = 0; i < n; i += v_lanes()) greatest = v_max(greatest, v_load(x + i, n - i, -INFINITY));
    return v_greatest(greatest);
}

/* One row of y from the same row of x, which may be the same memory. */
typedef void vector_row(const float *x, float *y, size_t n);

static inline int over_rows(const kf_tensor *x, const kf_tensor *y, int axis, vector_row *kernel) {
    if (x->dtype != KF_F32 || y->dtype != KF_F32) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    if (!has_dense_rows(x, axis) || !has_dense_rows(y, axis) || overlaps(x, y)) return KF_REJECTED;
    row r = first_row(x, axis);
    do kernel((const float *)x->data + at(&r, x, 0), (float *)y->data + at(&r, y, 0), (size_t)r.n);
    while (next_row(&r));
    return KF_OK;
}

#endif
