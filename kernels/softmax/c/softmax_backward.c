/* softmax_backward.c: dx = y (dy - sum(y dy)), row by row. */
#include "gradients.h"

static void differentiate_row(const gradient *g, const row *r) {
    float dotted = 0.0f;
    for (int64_t i = 0; i < r->n; i++) dotted += load(&g->y, at(r, &g->y, i)) * load(&g->dy, at(r, &g->dy, i));
    for (int64_t i = 0; i < r->n; i++) {
        const float dx = load(&g->y, at(r, &g->y, i)) * (load(&g->dy, at(r, &g->dy, i)) - dotted);
        store(&g->dx, at(r, &g->dx, i), dx);
    }
}

int kf_softmax_backward(const kf_softmax_backward_call *call) {
    return over_rows((gradient){call->y, call->dy, call->dx}, call->axis, differentiate_row);
}
