/* forward.h: what kernels of the forward pass share: what they take, and the end of each row. */
#ifndef KERNELS_ATTENTION_FORWARD_H
#define KERNELS_ATTENTION_FORWARD_H

#include "scores.h"

static inline bool takes(const kf_attention_call *c) {
    const kf_dtype dtype = c->q.dtype;
    if (!is_taken(&c->q) || !is_of(&c->k, dtype) || !is_of(&c->v, dtype) || !is_of(&c->mask, KF_BOOL)) return false;
    const kf_dtype other = sizeof(real) == sizeof(float) ? KF_F32 : KF_F64; /* no doubles are stored in fewer bits */
    if (!is_of(&c->lse, other) || !(is_of(&c->bias, dtype) || is_of(&c->bias, other))) return false;
    return is_of(&c->o, dtype) || is_of(&c->o, other);
}

static inline query first_query(const kf_attention_call *c) {
    return (query){&c->q, &c->k, &c->mask, &c->bias, c->softmax_scale, c->causal, c->window, c->cap, 0, 0, 0, 0};
}

/* A share as it is multiplied: where it is rounded, to the dtype of the values. */
static inline real share(const kf_attention_call *c, real p) {
#ifdef ROUNDED
    return rounded(c->v.dtype, p);
#else
    (void)c;
    return p;
#endif
}

/* A query that sees no key has a maximum of minus infinity, and what the caller wants in its place. */
static inline void finish(const query *at, const kf_attention_call *c, real most, real mass, const real *acc) {
    const int64_t to = of_head(at, &c->o, at->i);
    for (int64_t e = 0; e < c->v.shape[3]; e++) {
        const real nothing = c->blank >= 0.5f ? NAN : 0;
        store(&c->o, to + e * c->o.strides[4], most == -INFINITY ? nothing : acc[e] / mass);
    }
    if (is_present(&c->lse)) store(&c->lse, of_head(at, &c->lse, at->i), most == -INFINITY ? most : most + logarithm(mass));
}

#endif
