/* row_var.c: the mean first, then the squares of what lies beside it. */
#include "reduced.h"

static float reduced(const kf_tensor *x, const row *r, float given) {
    const float mean = sum_of(x, r) / (float)r->n;
    float squares = 0.0f;
    for (int64_t i = 0; i < r->n; i++) {
        const float centred = load(x, at(r, x, i)) - mean;
        squares += centred * centred;
    }
    return squares / ((float)r->n - given);
}

int kf_row_var(const kf_row_var_call *call) { return reduce(&call->x, &call->y, call->axis, reduced, call->correction); }
