/* rows.h: what every row-wise rms_norm kernel shares. A kernel is one function over a row of f32; this walks the rows
 * of a tensor of any rank, and widens and narrows rows of f16. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "half.h"
#include "kernelfuzz.h"

/* y = rms_norm(x) for one row of n >= 1 elements; y may be x. No address is aligned beyond 4 bytes. */
typedef void row_kernel(const float *x, float *y, size_t n, float eps);

/* 1/sqrt(total/n + eps), every step correctly rounded. */
static inline float reciprocal_rms(float total, size_t n, float eps) {
    return 1.0f / sqrtf(total / (float)n + eps);
}

static inline bool is_empty(const kf_tensor *t) {
    for (int axis = 0; axis < t->rank; axis++)
        if (t->shape[axis] == 0) return true;
    return false;
}

static inline bool is_row_wise(const kf_rms_norm_call *call) {
    const int last = call->x.rank - 1;
    if (last < 0 || call->axis != last) return false;
    return call->x.shape[last] <= 1 || (call->x.strides[last] == 1 && call->y.strides[last] == 1);
}

/* x of f32 or f16, y of the same, no weight and no rstd. */
static inline bool is_plain(const kf_rms_norm_call *call) {
    if (call->weight.data != NULL || call->rstd.data != NULL) return false;
    return call->x.dtype == call->y.dtype && (call->x.dtype == KF_F32 || call->x.dtype == KF_F16);
}

/* Steps over every axis but `skip`, the last fastest. False after the last position. */
static inline bool next_position(const kf_tensor *t, int skip, int64_t index[KF_MAX_RANK]) {
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        if (axis == skip) continue;
        if (++index[axis] < t->shape[axis]) return true;
        index[axis] = 0;
    }
    return false;
}

/* Offset in elements. */
static inline int64_t offset_of(const kf_tensor *t, const int64_t index[KF_MAX_RANK]) {
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank; axis++) offset += index[axis] * t->strides[axis];
    return offset;
}

static inline int f32_rows(const kf_rms_norm_call *call, row_kernel *row) {
    const size_t n = (size_t)call->x.shape[call->axis];
    int64_t index[KF_MAX_RANK] = {0};
    do {
        const float *x = (const float *)call->x.data + offset_of(&call->x, index);
        row(x, (float *)call->y.data + offset_of(&call->y, index), n, call->eps);
    } while (next_position(&call->x, call->axis, index));
    return KF_OK;
}

static inline int f16_rows(const kf_rms_norm_call *call, row_kernel *row) {
    const size_t n = (size_t)call->x.shape[call->axis];
    float *wide = malloc(n * sizeof *wide);
    if (wide == NULL) return KF_REJECTED;
    int64_t index[KF_MAX_RANK] = {0};
    do {
        widen((const uint16_t *)call->x.data + offset_of(&call->x, index), wide, n);
        row(wide, wide, n, call->eps);
        narrow(wide, (uint16_t *)call->y.data + offset_of(&call->y, index), n);
    } while (next_position(&call->x, call->axis, index));
    free(wide);
    return KF_OK;
}

/* Bytes of an f16 or f32 tensor with elements: from the first one's address to the end of the last one's. */
typedef struct {
    intptr_t start, end;
} extent;

static inline extent extent_of(const kf_tensor *t) {
    const int64_t size = t->dtype == KF_F32 ? 4 : 2;
    extent found = {(intptr_t)t->data, (intptr_t)t->data + size};
    for (int axis = 0; axis < t->rank; axis++) {
        const int64_t reach = (t->shape[axis] - 1) * t->strides[axis] * size;
        if (reach < 0) found.start += reach;
        else found.end += reach;
    }
    return found;
}

/* True where y is neither beside x nor exactly in its place: writing one row would change what others are made of. */
static inline bool overlaps(const kf_rms_norm_call *call) {
    const extent x = extent_of(&call->x), y = extent_of(&call->y);
    if (x.end <= y.start || y.end <= x.start) return false;
    bool same = call->x.data == call->y.data;
    for (int axis = 0; axis < call->x.rank; axis++)
        if (call->x.shape[axis] > 1) same &= call->x.strides[axis] == call->y.strides[axis];
    return !same;
}

static inline int each_row(const kf_rms_norm_call *call, row_kernel *row) {
    if (!is_plain(call)) return KF_REJECTED;
    if (is_empty(&call->x)) return KF_OK;
    if (!is_row_wise(call) || overlaps(call)) return KF_REJECTED;
    return call->x.dtype == KF_F32 ? f32_rows(call, row) : f16_rows(call, row);
}

#endif
