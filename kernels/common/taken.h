/* taken.h: what a kernel that calculates in float asks of tensors before it takes them. An absent one is always taken. */
#ifndef KERNELS_TAKEN_H
#define KERNELS_TAKEN_H

#include "elements.h"

static inline bool is_of(const kf_tensor *t, kf_dtype dtype) { return !is_present(t) || t->dtype == dtype; }

/* Of 32 or of 16 bits: a float holds its elements. */
static inline bool fits_float(const kf_tensor *t) { return is_of(t, KF_F32) || is_of(t, KF_F16) || is_of(t, KF_BF16); }

static inline bool is_of_or_f32(const kf_tensor *t, kf_dtype dtype) { return is_of(t, dtype) || is_of(t, KF_F32); }

static inline bool is_of_places(const kf_tensor *t) { return is_of(t, KF_INT32) || is_of(t, KF_INT64); }

/* All of a tensor of rank 1 are from `lowest` to below `end`. */
static inline bool are_places(const kf_tensor *t, int64_t lowest, int64_t end) {
    for (int64_t i = 0; i < t->shape[0]; i++) {
        const int64_t place = load_place(t, i * t->strides[0]);
        if (place < lowest || place >= end) return false;
    }
    return true;
}

static inline bool is_column(const kf_tensor *t) { return !is_present(t) || t->rank == 1; }

/* The elements of each row are neighbours; `axis` is the last one. */
static inline bool has_dense_rows(const kf_tensor *t, int axis) {
    return axis >= 0 && axis == t->rank - 1 && (t->strides[axis] == 1 || t->shape[axis] == 1);
}

/* Elements of f32 without gaps, in C order. Without any element no stride is of importance. */
static inline bool is_dense(const kf_tensor *t) {
    int64_t next = 1;
    for (int axis = t->rank - 1; is_present(t) && has_elements(t) && axis >= 0; axis--) {
        if (t->shape[axis] != 1 && t->strides[axis] != next) return false;
        next *= t->shape[axis];
    }
    return is_of(t, KF_F32);
}

/* A column of f32 whose elements are neighbours. */
static inline bool is_dense_column(const kf_tensor *t) {
    return is_column(t) && is_dense(t);
}

#endif
