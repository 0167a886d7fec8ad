/* Rows of tensors, as ggml's functions of rows take them. */
#pragma once
#include <stdint.h>

#include "kernelfuzz.h"

/* The number of rows of a tensor, the last `own` dimensions of which are a row's. */
static inline int64_t rows_of(const kf_tensor *t, int own) {
    int64_t rows = 1;
    for (int axis = 0; axis < t->rank - own; axis++) rows *= t->shape[axis];
    return rows;
}

/* The length of the innermost dimension. */
static inline int length_of(const kf_tensor *t) {
    return t->rank == 0 ? 1 : (int)t->shape[t->rank - 1];
}

/* Where a row begins. */
static inline void *row_of(const kf_tensor *t, int own, int64_t row) {
    static const int sizes[] = {[KF_F32] = 4, [KF_F16] = 2, [KF_BF16] = 2, [KF_INT8] = 1};
    int64_t offset = 0;
    for (int axis = t->rank - own - 1; axis >= 0 && row > 0; axis--) {
        offset += row % t->shape[axis] * t->strides[axis];
        row /= t->shape[axis];
    }
    return (char *)t->data + offset * sizes[t->dtype];
}
