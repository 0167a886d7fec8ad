/* Calls @function@ of @library@. Written by kernelfuzz from a prototype. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "kernelfuzz.h"

@before@static const int item_bytes[] = {@items@};

static inline int64_t extent(const kf_tensor *t, int from_end) {
    return from_end <= t->rank ? t->shape[t->rank - from_end] : 1;
}

static inline int64_t size(const kf_tensor *t) {
    int64_t elements = 1;
    for (int axis = 0; axis < t->rank; axis++) elements *= t->shape[axis];
    return elements;
}

static inline int64_t stride(const kf_tensor *t) {
    for (int axis = t->rank - 2; axis >= 0; axis--)
        if (t->shape[axis] > 1) return t->strides[axis];
    return extent(t, 1);
}

/* Where a row begins, of a tensor the last `own` dimensions of which are the row's own. */
static inline void *at(const kf_tensor *t, int own, int64_t row) {
    int64_t offset = 0;
    for (int axis = t->rank - own - 1; axis >= 0 && row > 0; axis--) {
        offset += row % t->shape[axis] * t->strides[axis];
        row /= t->shape[axis];
    }
    return t->data == NULL ? NULL : (char *)t->data + offset * item_bytes[t->dtype];
}
