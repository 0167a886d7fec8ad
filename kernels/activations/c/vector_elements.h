/* vector_elements.h: rows of f32, by vectors of whatever instruction set they are built for: the tail as a vector of which
 * some lanes are not the row's. */
#ifndef KERNELS_ACTIVATIONS_VECTOR_ELEMENTS_H
#define KERNELS_ACTIVATIONS_VECTOR_ELEMENTS_H

#include "../../common/overlap.h"
#include "../../common/taken.h"
#include "../../common/vector.h"

static inline bool is_of_rows(const kf_tensor *t, int axis) { return t->dtype == KF_F32 && has_dense_rows(t, axis); }

static inline float *row_of(const kf_tensor *t, const row *r) { return (float *)t->data + at(r, t, 0); }

#endif
