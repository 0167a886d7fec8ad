/* attention.c: all scores of a query, then their shares, then the values; any strides and dtypes. */
#include "forward.h"

static void row_of(const query *at, const kf_attention_call *c, real *p, real *acc) {
    const int64_t keys = c->k.shape[2], width = c->v.shape[3];
    real most = -INFINITY, mass = 0;
    for (int64_t j = 0; j < keys; j++) most = larger(most, p[j] = score(at, j));
    for (int64_t e = 0; e < width; e++) acc[e] = 0;
    for (int64_t j = 0; j < keys && most != -INFINITY; j++) {
        p[j] = exponential(p[j] - most);
        mass += p[j];
    }
    for (int64_t j = 0; j < keys; j++) {
        const int64_t from = of_group(at, &c->v, j);
        const real used = share(c, p[j]);
        for (int64_t e = 0; e < width; e++) acc[e] += used * load(&c->v, from + e * c->v.strides[3]);
    }
    finish(at, c, most, mass, acc);
}

int kf_attention(const kf_attention_call *call) {
    if (!takes(call)) return KF_REJECTED;
    if (!has_queries(&call->q)) return KF_OK;
    real *p = malloc((size_t)(call->k.shape[2] + call->v.shape[3] + 1) * sizeof(real));
    if (p == NULL) return KF_REJECTED;
    query at = first_query(call);
    do row_of(&at, call, p, p + call->k.shape[2]);
    while (next_query(&at));
    free(p);
    return KF_OK;
}
