/* flash.c: blocks of keys, one after the other; where the maximum grows, what there is so far is rescaled. */
#include "forward.h"

enum { KEYS = 16 };

static void row_of(const query *at, const kf_attention_call *c, real *acc) {
    const int64_t keys = c->k.shape[2], width = c->v.shape[3];
    real most = -INFINITY, mass = 0, p[KEYS];
    for (int64_t e = 0; e < width; e++) acc[e] = 0;
    for (int64_t start = 0; start < keys; start += KEYS) {
        const int64_t block = keys - start < KEYS ? keys - start : KEYS;
        const real before = most;
        for (int64_t j = 0; j < block; j++) most = larger(most, p[j] = score(at, start + j));
        const real shift = most == -INFINITY ? 0 : most; /* no key is seen yet: their difference would be no number */
        if (most != before) {
            const real again = exponential(before - shift);
            mass *= again;
            for (int64_t e = 0; e < width; e++) acc[e] *= again;
        }
        for (int64_t j = 0; j < block; j++) {
            const int64_t from = of_group(at, &c->v, start + j);
            p[j] = exponential(p[j] - shift);
            mass += p[j];
            const real used = share(c, p[j]);
            for (int64_t e = 0; e < width; e++) acc[e] += used * load(&c->v, from + e * c->v.strides[3]);
        }
    }
    finish(at, c, most, mass, acc);
}

int kf_attention(const kf_attention_call *call) {
    if (!takes(call)) return KF_REJECTED;
    if (!has_queries(&call->q)) return KF_OK;
    real *acc = malloc((size_t)(call->v.shape[3] + 1) * sizeof(real));
    if (acc == NULL) return KF_REJECTED;
    query at = first_query(call);
    do row_of(&at, call, acc);
    while (next_query(&at));
    free(acc);
    return KF_OK;
}
