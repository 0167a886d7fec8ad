/* gradients.h: what the gradients of softmax and log_softmax share, one element at a time. Any axis and strides. */
#ifndef KERNELS_SOFTMAX_GRADIENTS_H
#define KERNELS_SOFTMAX_GRADIENTS_H

#include "../../common/overlap.h"
#include "../../common/taken.h"

typedef struct {
    kf_tensor y, dy, dx;
} gradient;

/* One row of dx, element i written after those of y and dy were read for the last time. */
typedef void row_gradient(const gradient *g, const row *r);

static inline int over_rows(gradient g, int axis, row_gradient *differentiate) {
    if (!fits_float(&g.y) || !is_of(&g.dy, g.y.dtype) || !is_of(&g.dx, g.y.dtype)) return KF_REJECTED;
    if (!has_elements(&g.y)) return KF_OK;
    void *copies[2] = {NULL, NULL};
    const bool ready = detach(&g.y, &g.dx, &g.dx, &copies[0]) && detach(&g.dy, &g.dx, &g.dx, &copies[1]);
    row r = first_row(&g.y, axis);
    if (ready) {
        do differentiate(&g, &r);
        while (next_row(&r));
    }
    free(copies[0]);
    free(copies[1]);
    return ready ? KF_OK : KF_REJECTED;
}

#endif
