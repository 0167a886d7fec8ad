/* attention_backward.c: one query after the other; the gradients of keys and values are sums over all of a group. */
#include "scores.h"

/* What one query needs beside itself: shares, their gradients, and its own gradient. */
typedef struct {
    real *p, *ds, *dq, *dk, *dv;
} rows;

static bool takes(const kf_attention_backward_call *c) {
    const kf_dtype dtype = c->q.dtype;
    if (!is_taken(&c->q) || !is_of(&c->k, dtype) || !is_of(&c->v, dtype) || !is_of(&c->dy, dtype)) return false;
    if (!is_of_or_f32(&c->bias, dtype) || !is_of(&c->mask, KF_BOOL)) return false;
    if (!is_of_or_f32(&c->o, dtype) || !is_of(&c->lse, KF_F32)) return false;
    return is_of_or_f32(&c->dq, dtype) && is_of_or_f32(&c->dk, dtype) && is_of_or_f32(&c->dv, dtype);
}

/* The logarithm of the sum of exponentials of scores. */
static real logarithm_of_sum(const real *s, int64_t keys) {
    real most = -INFINITY, mass = 0;
    for (int64_t j = 0; j < keys; j++) most = larger(most, s[j]);
    if (most == -INFINITY) return most;
    for (int64_t j = 0; j < keys; j++) mass += exponential(s[j] - most);
    return most + logarithm(mass);
}

/* The product of the gradient of one query and a row of v. */
static real gradient_of_share(const query *at, const kf_attention_backward_call *c, int64_t j) {
    const int64_t from = of_head(at, &c->dy, at->i), to = of_group(at, &c->v, j);
    real sum = 0;
    for (int64_t e = 0; e < c->v.shape[3]; e++)
        sum += load(&c->dy, from + e * c->dy.strides[4]) * load(&c->v, to + e * c->v.strides[3]);
    return sum;
}

static real sum_of_output(const query *at, const kf_attention_backward_call *c, const real *p) {
    const int64_t from = of_head(at, &c->dy, at->i);
    real sum = 0;
    for (int64_t e = 0; e < c->v.shape[3]; e++) {
        real o = 0;
        if (is_present(&c->o)) o = load(&c->o, of_head(at, &c->o, at->i) + e * c->o.strides[4]);
        else
            for (int64_t j = 0; j < c->k.shape[2]; j++)
                o += p[j] * load(&c->v, of_group(at, &c->v, j) + e * c->v.strides[3]);
        sum += load(&c->dy, from + e * c->dy.strides[4]) * o;
    }
    return sum;
}

static void add_query(const query *at, const kf_attention_backward_call *c, const rows *r) {
    const int64_t keys = c->k.shape[2], width = c->q.shape[4], across = c->v.shape[3];
    const int64_t from_q = of_head(at, &c->q, at->i), from_dy = of_head(at, &c->dy, at->i);
    for (int64_t j = 0; j < keys; j++) r->p[j] = score(at, j);
    const real lse = is_present(&c->lse) ? load(&c->lse, of_head(at, &c->lse, at->i)) : logarithm_of_sum(r->p, keys);
    for (int64_t j = 0; j < keys; j++) {
        r->ds[j] = r->p[j] == -INFINITY ? 1 : slope(at, j);
        r->p[j] = r->p[j] == -INFINITY ? 0 : exponential(r->p[j] - lse);
    }
    const real delta = sum_of_output(at, c, r->p);
    for (int64_t d = 0; d < width; d++) r->dq[d] = 0;
    for (int64_t j = 0; j < keys; j++) {
        const int64_t from_k = of_group(at, &c->k, j);
        const real ds = r->p[j] * (gradient_of_share(at, c, j) - delta) * r->ds[j];
        for (int64_t d = 0; d < width; d++) {
            r->dq[d] += ds * load(&c->k, from_k + d * c->k.strides[3]);
            r->dk[j * width + d] += ds * load(&c->q, from_q + d * c->q.strides[4]);
        }
        for (int64_t e = 0; e < across; e++) r->dv[j * across + e] += r->p[j] * load(&c->dy, from_dy + e * c->dy.strides[4]);
    }
    const int64_t to = of_head(at, &c->dq, at->i);
    for (int64_t d = 0; d < width; d++) store(&c->dq, to + d * c->dq.strides[4], r->dq[d] * (real)c->softmax_scale);
}

static void finish(const query *at, const kf_attention_backward_call *c, const rows *r) {
    const int64_t width = c->q.shape[4], across = c->v.shape[3];
    for (int64_t j = 0; j < c->k.shape[2]; j++) {
        const int64_t to_k = of_group(at, &c->dk, j), to_v = of_group(at, &c->dv, j);
        for (int64_t d = 0; d < width; d++)
            store(&c->dk, to_k + d * c->dk.strides[3], r->dk[j * width + d] * (real)c->softmax_scale);
        for (int64_t e = 0; e < across; e++) store(&c->dv, to_v + e * c->dv.strides[3], r->dv[j * across + e]);
    }
}

int kf_attention_backward(const kf_attention_backward_call *call) {
    if (!takes(call)) return KF_REJECTED;
    const kf_tensor *q = &call->q;
    const size_t keys = (size_t)call->k.shape[2], width = (size_t)q->shape[4], across = (size_t)call->v.shape[3];
    const size_t of_keys = keys * width + keys * across;
    real *all = malloc((of_keys + 2 * keys + width + 1) * sizeof(real));
    if (all == NULL) return KF_REJECTED;
    rows r = {.dk = all, .dv = all + keys * width, .p = all + of_keys};
    r.ds = r.p + keys, r.dq = r.ds + keys;
    query at = {q, &call->k, &call->mask, &call->bias, call->softmax_scale, call->causal, call->window, call->cap, 0, 0, 0, 0};
    for (at.b = 0; at.b < q->shape[0]; at.b++) {
        for (at.g = 0; at.g < q->shape[1]; at.g++) {
            memset(all, 0, of_keys * sizeof(real));
            for (at.h = 0; at.h < q->shape[2]; at.h++)
                for (at.i = 0; at.i < q->shape[3]; at.i++) add_query(&at, call, &r);
            finish(&at, call, &r);
        }
    }
    free(all);
    return KF_OK;
}
