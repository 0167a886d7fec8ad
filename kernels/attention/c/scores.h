/* scores.h: what kernels of attention share: which keys a query sees, and their scores. Any strides and dtypes. */
#ifndef KERNELS_ATTENTION_SCORES_H
#define KERNELS_ATTENTION_SCORES_H

#include "../../common/taken.h"

/* One query: the tensors of all, and its place among them. */
typedef struct {
    const kf_tensor *q, *k, *mask, *bias;
    float softmax_scale, causal, window, cap;
    int64_t b, g, h, i;
} query;

static inline real exponential(real x) { return sizeof(real) == sizeof(float) ? (real)expf((float)x) : (real)exp((double)x); }

static inline real logarithm(real x) { return sizeof(real) == sizeof(float) ? (real)logf((float)x) : (real)log((double)x); }

static inline real tangent(real x) { return sizeof(real) == sizeof(float) ? (real)tanhf((float)x) : (real)tanh((double)x); }

/* A NaN among the scores is their maximum. */
static inline real larger(real most, real s) { return s > most || s != s ? s : most; }

/* The offset of row i of the head [b, g, h]. */
static inline int64_t of_head(const query *at, const kf_tensor *t, int64_t i) {
    return at->b * t->strides[0] + at->g * t->strides[1] + at->h * t->strides[2] + i * t->strides[3];
}

/* The offset of row j of the group [b, g], whose heads have it in common. */
static inline int64_t of_group(const query *at, const kf_tensor *t, int64_t j) {
    return at->b * t->strides[0] + at->g * t->strides[1] + j * t->strides[2];
}

static inline bool sees(const query *at, int64_t j) {
    const int64_t more = at->causal >= 1.5f ? at->k->shape[2] - at->q->shape[3] : 0, ahead = j - at->i - more;
    if (at->causal > 0 && ahead > 0) return false;
    if (at->window >= 0 && (float)ahead + at->window < 0) return false;
    const kf_tensor *mask = at->mask;
    if (!is_present(mask)) return true;
    return ((const uint8_t *)mask->data)[at->b * mask->strides[0] + at->i * mask->strides[1] + j * mask->strides[2]];
}

/* The score before cap and bias. */
static inline real product(const query *at, int64_t j) {
    const int64_t from = of_head(at, at->q, at->i), to = of_group(at, at->k, j);
    real sum = 0;
    for (int64_t d = 0; d < at->q->shape[4]; d++) sum += load(at->q, from + d * at->q->strides[4]) * load(at->k, to + d * at->k->strides[3]);
    return sum * (real)at->softmax_scale;
}

static inline real score(const query *at, int64_t j) {
    if (!sees(at, j)) return -INFINITY;
    real s = product(at, j);
    if (at->cap > 0) s = (real)at->cap * tangent(s / (real)at->cap);
    const kf_tensor *bias = at->bias;
    if (!is_present(bias)) return s;
    return s + load(bias, at->g * bias->strides[0] + at->h * bias->strides[1] + at->i * bias->strides[2] + j * bias->strides[3]);
}

/* The derivative of a score by what the cap takes. */
static inline real slope(const query *at, int64_t j) {
    if (!(at->cap > 0)) return 1;
    const real t = tangent(product(at, j) / (real)at->cap);
    return 1 - t * t;
}

/* False after the last query of all heads. */
static inline bool next_query(query *at) {
    const int64_t *shape = at->q->shape;
    if (++at->i < shape[3]) return true;
    at->i = 0;
    if (++at->h < shape[2]) return true;
    at->h = 0;
    if (++at->g < shape[1]) return true;
    at->g = 0;
    return ++at->b < shape[0];
}

static inline bool has_queries(const kf_tensor *q) { return q->shape[0] && q->shape[1] && q->shape[2] && q->shape[3]; }

/* What is calculated in float holds no double. */
static inline bool is_taken(const kf_tensor *t) { return sizeof(real) == sizeof(float) ? fits_float(t) : is_of(t, KF_F64); }

#endif
