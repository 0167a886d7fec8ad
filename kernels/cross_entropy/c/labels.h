/* labels.h: what the loss and its gradient share. Any axis and strides, one element at a time. */
#ifndef KERNELS_CROSS_ENTROPY_LABELS_H
#define KERNELS_CROSS_ENTROPY_LABELS_H

#include "../../common/taken.h"

enum { IGNORED = -100 };

/* The greatest element of a row, and the sum of the exponentials beside it. A NaN is in the sum alone. */
typedef struct {
    float greatest, mass;
} exponentials;

static inline exponentials exponentials_of(const kf_tensor *x, const row *r) {
    exponentials e = {-INFINITY, 0.0f};
    for (int64_t i = 0; i < r->n; i++) {
        const float value = load(x, at(r, x, i));
        if (value > e.greatest) e.greatest = value;
    }
    for (int64_t i = 0; i < r->n; i++) e.mass += expf(load(x, at(r, x, i)) - e.greatest);
    return e;
}

static inline float lse_of(exponentials e) { return logf(e.mass) + e.greatest; }

/* All labels are classes, or none that counts. */
static inline bool are_labels(const kf_tensor *x, int axis, const kf_tensor *label) {
    row r = first_row(x, axis);
    if (has_elements(x)) do {
        const int64_t place = load_place(label, at_row(&r, label));
        if (place != IGNORED && (place < 0 || place >= r.n)) return false;
    } while (next_row(&r));
    return true;
}

#endif
