/* grid.h: what products of matrices share: the matrices of a batch, one after the other, and the end of each element. */
#ifndef KERNELS_MATMUL_GRID_H
#define KERNELS_MATMUL_GRID_H

#include "../../common/taken.h"

/* The place of a matrix along the dimensions before its own two. */
typedef struct {
    int64_t index[KF_MAX_RANK];
} matrix;

static inline int64_t start(const matrix *at, const kf_tensor *t) {
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank - 2; axis++) offset += at->index[axis] * t->strides[axis];
    return offset;
}

/* False after the last matrix. */
static inline bool next_matrix(matrix *at, const kf_tensor *t) {
    for (int axis = t->rank - 3; axis >= 0; axis--) {
        if (++at->index[axis] < t->shape[axis]) return true;
        at->index[axis] = 0;
    }
    return false;
}

/* A NaN is not less than anything: it stays one. */
static inline real finished(real z, float relu) { return relu >= 0.5f && z <= 0 ? 0 : z; }

/* What is calculated in float holds no double. */
static inline bool is_taken(const kf_tensor *t) {
    return sizeof(real) == sizeof(float) ? fits_float(t) : is_of(t, KF_F64);
}

#endif
