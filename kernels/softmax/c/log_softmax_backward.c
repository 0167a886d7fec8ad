/* log_softmax_backward.c: dx = dy - exp(y) sum(dy), row by row. */
#include "gradients.h"

static void differentiate_row(const gradient *g, const row *r) {
    float mass = 0.0f;
    for (int64_t i = 0; i < r->n; i++) mass += load(&g->dy, at(r, &g->dy, i));
    for (int64_t i = 0; i < r->n; i++) {
        const float dx = load(&g->dy, at(r, &g->dy, i)) - expf(load(&g->y, at(r, &g->y, i))) * mass;
        store(&g->dx, at(r, &g->dx, i), dx);
    }
}

int kf_log_softmax_backward(const kf_log_softmax_backward_call *call) {
    return over_rows((gradient){call->y, call->dy, call->dx}, call->axis, differentiate_row);
}
