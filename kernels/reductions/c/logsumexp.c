/* logsumexp.c: the greatest element first, then the exponentials. */
#include "reduced.h"

static float reduced(const kf_tensor *x, const row *r, float given) {
    (void)given;
    const float greatest = greatest_of(x, r);
    float mass = 0.0f;
    for (int64_t i = 0; i < r->n; i++) mass += expf(load(x, at(r, x, i)) - greatest);
    return logf(mass) + greatest;
}

int kf_logsumexp(const kf_logsumexp_call *call) { return reduce(&call->x, &call->y, call->axis, reduced, 0.0f); }
