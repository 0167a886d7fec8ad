/* row_sum.c: one element after the other. */
#include "reduced.h"

static float reduced(const kf_tensor *x, const row *r, float given) {
    (void)given;
    return sum_of(x, r);
}

int kf_row_sum(const kf_row_sum_call *call) { return reduce(&call->x, &call->y, call->axis, reduced, 0.0f); }
