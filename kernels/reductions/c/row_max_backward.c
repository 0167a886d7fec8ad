/* row_max_backward.c: the greatest element first, then how many are equal to it and which is the one that counts. */
#include "gradients.h"

enum { SHARED, FIRST, LAST, EACH };

static void gradient(const kf_tensor *x, const kf_tensor *dx, const row *r, float dy, float of_ties) {
    const float greatest = greatest_of(x, r);
    const int ties = (int)of_ties;
    int64_t first = -1, last = -1, count = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (load(x, at(r, x, i)) != greatest) continue;
        if (count == 0) first = i;
        last = i;
        count++;
    }
    const int64_t one = ties == FIRST ? first : last;
    const float share = ties == SHARED ? dy / (float)count : dy;
    for (int64_t i = 0; i < r->n; i++) {
        const bool counts = ties == FIRST || ties == LAST ? i == one : load(x, at(r, x, i)) == greatest;
        store(dx, at(r, dx, i), isnan(greatest) ? NAN : counts ? share : 0.0f);
    }
}

int kf_row_max_backward(const kf_row_max_backward_call *call) {
    return differentiate(&call->x, &call->dy, &call->dx, call->axis, gradient, call->of_ties);
}
