/* gradients.h: what each element of a row is worth, of what its one number is worth. Any axis and strides. */
#ifndef KERNELS_REDUCTIONS_GRADIENTS_H
#define KERNELS_REDUCTIONS_GRADIENTS_H

#include "reduced.h"

/* Writes a row of dx; `given` is the parameter of the call, where it has one. */
typedef void row_gradient(const kf_tensor *x, const kf_tensor *dx, const row *r, float dy, float given);

static inline void fill_row(const kf_tensor *dx, const row *r, float value) {
    for (int64_t i = 0; i < r->n; i++) store(dx, at(r, dx, i), value);
}

static inline bool takes_gradient(const kf_tensor *x, const kf_tensor *dy, const kf_tensor *dx) {
    return fits_float(x) && is_of_or_f32(dy, x->dtype) && is_of_or_f32(dx, x->dtype);
}

static inline int differentiate(
    const kf_tensor *x, const kf_tensor *dy, const kf_tensor *dx, int axis, row_gradient *kernel, float given) {
    if (!takes_gradient(x, dy, dx)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, axis);
    do kernel(x, dx, &r, load(dy, at_row(&r, dy)), given);
    while (next_row(&r));
    return KF_OK;
}

#endif
