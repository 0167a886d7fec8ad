/* rope.h: rotary embedding of either pairing, one element at a time. Any strides. */
#ifndef KERNELS_ROPE_ROPE_H
#define KERNELS_ROPE_ROPE_H

#include "../../common/overlap.h"
#include "../../common/taken.h"

/* Where things lie in [..., t, w, r] of halves, or in [..., t, w, r, 2] of neighbours. */
typedef struct {
    int place, piece, run, pair;
    int64_t pieces; /* that are rotated */
} pairing;

static inline pairing halves(const kf_tensor *x) {
    return (pairing){x->rank - 3, x->rank - 2, x->rank - 1, x->rank - 2, 2};
}

static inline pairing neighbours(const kf_tensor *x) {
    return (pairing){x->rank - 4, x->rank - 3, x->rank - 2, x->rank - 1, 1};
}

/* Both elements of a pair are read before either is written. */
static inline void turn_run(const kf_tensor *x, const kf_tensor *cos, const kf_tensor *sin, const kf_tensor *y,
                            const row *r, pairing p, float direction) {
    const int64_t t = r->index[p.place];
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t from = at(r, x, i), to = at(r, y, i);
        const float a = load(x, from), b = load(x, from + x->strides[p.pair]);
        const float c = load(cos, t * cos->strides[0] + i * cos->strides[1]);
        const float s = direction * load(sin, t * sin->strides[0] + i * sin->strides[1]);
        store(y, to, a * c - b * s);
        store(y, to + y->strides[p.pair], b * c + a * s);
    }
}

static inline int rotate(const kf_tensor *given, const kf_tensor *cos, const kf_tensor *sin, const kf_tensor *y, pairing p,
                         float direction) {
    const kf_dtype dtype = given->dtype;
    if (!fits_float(given) || !is_of(y, dtype) || !is_of_or_f32(cos, dtype) || !is_of_or_f32(sin, dtype)) return KF_REJECTED;
    if (!has_elements(given)) return KF_OK;
    kf_tensor x = *given;
    void *copy;
    if (!detach(&x, y, y, &copy)) return KF_REJECTED;
    row r = first_row(&x, p.run);
    do {
        if (r.index[p.piece] >= p.pieces)
            for (int64_t i = 0; i < r.n; i++) store(y, at(&r, y, i), load(&x, at(&r, &x, i)));
        else if (r.index[p.pair] == 0) turn_run(&x, cos, sin, y, &r, p, direction);
    } while (next_row(&r));
    free(copy);
    return KF_OK;
}

#endif
