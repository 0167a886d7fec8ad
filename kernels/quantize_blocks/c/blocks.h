/* blocks.h: rows in blocks, of which the last one has what is left. Any axis and strides. */
#ifndef KERNELS_QUANTIZE_BLOCKS_BLOCKS_H
#define KERNELS_QUANTIZE_BLOCKS_BLOCKS_H

#include "../../common/taken.h"

/* Elements `first` to below `end` of a row. */
typedef struct {
    int64_t first, end;
} block;

static inline block block_of(const row *r, int64_t number, int64_t size) {
    const int64_t first = number * size;
    return (block){first, first + size < r->n ? first + size : r->n};
}

/* A NaN is the largest of all. */
static inline float most_of(const kf_tensor *x, const row *r, block b) {
    float most = 0.0f;
    for (int64_t i = b.first; i < b.end; i++) {
        const float size = fabsf(load(x, at(r, x, i)));
        if (isnan(size)) return size;
        if (size > most) most = size;
    }
    return most;
}

/* Offset of element `number` of the row's own, along the last axis of a tensor with one more than x has without its own. */
static inline int64_t at_own(const row *r, const kf_tensor *t, int64_t number) {
    int64_t offset = number * t->strides[t->rank - 1];
    for (int axis = 0; axis + 1 < t->rank; axis++) offset += r->index[axis + (axis >= r->axis)] * t->strides[axis];
    return offset;
}

#endif
