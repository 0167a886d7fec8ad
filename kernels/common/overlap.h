/* overlap.h: outputs that overlap an input in part. The input is then copied before anything is written, as memmove
 * would do it; an output exactly in place of it is left to the kernel, which knows in what order it reads and writes. */
#ifndef KERNELS_OVERLAP_H
#define KERNELS_OVERLAP_H

#include "elements.h"

typedef struct {
    intptr_t start, end;
} extent;

static inline int64_t size_of(kf_dtype dtype) { return dtype == KF_F64 ? 8 : dtype == KF_F32 ? 4 : 2; }

/* Bytes from the lowest address of a tensor with elements to the end of its highest one. */
static inline extent extent_of(const kf_tensor *t) {
    extent found = {(intptr_t)t->data, (intptr_t)t->data + size_of(t->dtype)};
    for (int axis = 0; axis < t->rank; axis++) {
        const int64_t reach = (t->shape[axis] - 1) * t->strides[axis] * size_of(t->dtype);
        if (reach < 0) found.start += reach;
        else found.end += reach;
    }
    return found;
}

static inline bool overlaps(const kf_tensor *input, const kf_tensor *output) {
    if (!is_present(output)) return false;
    const extent in = extent_of(input), out = extent_of(output);
    if (in.end <= out.start || out.end <= in.start) return false;
    bool same = input->data == output->data;
    for (int axis = 0; axis < input->rank; axis++)
        if (input->shape[axis] > 1) same &= input->strides[axis] == output->strides[axis];
    return !same;
}

/* Gives `input` memory of its own where one of two outputs overlaps it. *copy is to be freed; false without memory. */
static inline bool detach(kf_tensor *input, const kf_tensor *one, const kf_tensor *two, void **copy) {
    *copy = NULL;
    if (!is_present(input) || (!overlaps(input, one) && !overlaps(input, two))) return true;
    kf_tensor dense = *input;
    int64_t count = 1;
    for (int axis = dense.rank - 1; axis >= 0; axis--) {
        dense.strides[axis] = count;
        count *= dense.shape[axis];
    }
    dense.data = *copy = malloc((size_t)(count * size_of(dense.dtype)));
    if (*copy == NULL) return false;
    row r = first_row(input, dense.rank - 1);
    do {
        for (int64_t i = 0; i < r.n; i++) {
            const int64_t size = size_of(dense.dtype), from = at(&r, input, i) * size, to = at(&r, &dense, i) * size;
            memcpy((char *)dense.data + to, (const char *)input->data + from, (size_t)size);
        }
    } while (next_row(&r));
    *input = dense;
    return true;
}

#endif
