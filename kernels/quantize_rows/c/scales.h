/* scales.h: the scale of each row, of its largest magnitude. Any axis and strides. */
#ifndef KERNELS_QUANTIZE_ROWS_SCALES_H
#define KERNELS_QUANTIZE_ROWS_SCALES_H

#include "../../common/taken.h"

/* A NaN is the largest of all. */
static inline float most_of(const kf_tensor *x, const row *r) {
    float most = 0.0f;
    for (int64_t i = 0; i < r->n; i++) {
        const float size = fabsf(load(x, at(r, x, i)));
        if (!(size <= most)) most = size;
        if (isnan(most)) break;
    }
    return most;
}

/* One row, given its largest magnitude and its scale. */
typedef void row_kernel(const kf_tensor *x, const kf_tensor *q, const row *r, float most, float scale);

static inline int over_rows(
    const kf_tensor *x, const kf_tensor *q, const kf_tensor *scale, int axis, float top, float of_zeros, row_kernel *kernel) {
    if (!fits_float(x) || !is_of(scale, KF_F32)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, axis);
    do {
        const float most = most_of(x, &r), step = most == 0 ? of_zeros : most / top;
        store(scale, at_row(&r, scale), step);
        kernel(x, q, &r, most, step);
    } while (next_row(&r));
    return KF_OK;
}

#endif
