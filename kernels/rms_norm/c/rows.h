/* rows.h: what every row-wise rms_norm kernel shares. A kernel is one function over a row of f32, or over a block of
 * rows; this walks the rows of a tensor of any rank, and widens and narrows rows of f16. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../../common/half.h"
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

/* Up to BLOCK rows of f32, each a pitch after the one before. Of long rows there are fewer: what was read of them to sum
 * their squares is still near when they are scaled. Measured with AVX2 and 32 KiB of L1: sixteen rows of 64 take a sixth
 * less than eight at a time; and of 2048, 3072, 4096, 6144 and 8192 elements, 4096 are best from n = 256 to 2048. */
enum { BLOCK = 16, BLOCK_ELEMENTS = 4096 };
typedef struct {
    const float *x;
    float *y;
    int64_t x_pitch, y_pitch;
    size_t rows, n;
    float eps;
    row_kernel *row;
} block;

/* The same for every row of a block. */
typedef void block_kernel(const block *b);

static inline const float *x_of(block b, size_t row) { return b.x + (int64_t)row * b.x_pitch; }
static inline float *y_of(block b, size_t row) { return b.y + (int64_t)row * b.y_pitch; }

static inline void row_by_row(const block *b) {
    for (size_t r = 0; r < b->rows; r++) b->row(x_of(*b, r), y_of(*b, r), b->n, b->eps);
}

/* The block as f32, in place in memory of its own, and back. */
static inline void as_floats(const uint16_t *x, uint16_t *y, const block *b, float *wide, block_kernel *kernel) {
    block held = *b;
    held.x = held.y = wide;
    held.x_pitch = held.y_pitch = (int64_t)b->n;
    for (size_t r = 0; r < b->rows; r++) widen(x + (int64_t)r * b->x_pitch, wide + r * b->n, b->n);
    kernel(&held);
    for (size_t r = 0; r < b->rows; r++) narrow(wide + r * b->n, y + (int64_t)r * b->y_pitch, b->n);
}

/* All rows of a tensor with elements, in blocks along the innermost axis that is not theirs. */
static inline int in_blocks(const kf_rms_norm_call *call, block_kernel *kernel, row_kernel *row) {
    const kf_tensor *x = &call->x, *y = &call->y;
    const int across = call->axis == x->rank - 1 ? x->rank - 2 : x->rank - 1;
    const int64_t rows = across < 0 ? 1 : x->shape[across];
    block b = {.n = (size_t)x->shape[call->axis], .eps = call->eps, .row = row};
    if (across >= 0) {
        b.x_pitch = x->strides[across];
        b.y_pitch = y->strides[across];
    }
    int64_t most = BLOCK;
    while (most > 1 && most * (int64_t)b.n > BLOCK_ELEMENTS) most /= 2;
    float *wide = x->dtype == KF_F32 ? NULL : malloc((size_t)most * b.n * sizeof *wide);
    if (x->dtype != KF_F32 && wide == NULL) return KF_REJECTED;
    int64_t index[KF_MAX_RANK] = {0};
    do {
        int64_t from = offset_of(x, index), to = offset_of(y, index);
        for (int64_t first = 0; first < rows; first += most) {
            b.rows = (size_t)(rows - first < most ? rows - first : most);
            if (wide != NULL) {
                as_floats((const uint16_t *)x->data + from, (uint16_t *)y->data + to, &b, wide, kernel);
            } else {
                b.x = (const float *)x->data + from;
                b.y = (float *)y->data + to;
                kernel(&b);
            }
            from += most * b.x_pitch;
            to += most * b.y_pitch;
        }
        if (across >= 0) index[across] = rows - 1; /* the last of these rows */
    } while (next_position(x, call->axis, index));
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

static inline int in_blocks_if_taken(const kf_rms_norm_call *call, block_kernel *kernel, row_kernel *row) {
    if (!is_plain(call)) return KF_REJECTED;
    if (is_empty(&call->x)) return KF_OK;
    if (!is_row_wise(call) || overlaps(call)) return KF_REJECTED;
    return in_blocks(call, kernel, row);
}

static inline int each_block(const kf_rms_norm_call *call, block_kernel *kernel) { return in_blocks_if_taken(call, kernel, NULL); }
static inline int each_row(const kf_rms_norm_call *call, row_kernel *row) { return in_blocks_if_taken(call, row_by_row, row); }

#endif
