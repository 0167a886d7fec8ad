/* picks.h: the elements of a row from the largest down, of equal ones the first one first. Any axis and strides. */
#ifndef KERNELS_TOPK_SOFTMAX_PICKS_H
#define KERNELS_TOPK_SOFTMAX_PICKS_H

#include "../../common/taken.h"

typedef struct {
    float value;
    int64_t place; /* less than 0 before the first one */
} pick;

static const pick NONE = {INFINITY, -1};

static inline bool comes_after(float value, int64_t place, pick before) {
    return value < before.value || (value == before.value && place > before.place);
}

/* The one after `before`. A NaN is none of them: where there are too few others, there is one more of NaN. */
static inline pick next_pick(const kf_tensor *x, const row *r, pick before) {
    pick found = {NAN, -1};
    for (int64_t i = 0; i < r->n; i++) {
        const float value = load(x, at(r, x, i));
        if (comes_after(value, i, before) && (found.place < 0 || value > found.value)) found = (pick){value, i};
    }
    return found.place < 0 ? (pick){NAN, 0} : found;
}

/* Offset of pick j of the row, in a tensor of the shape of x without the axis, and one more at its end. */
static inline int64_t at_pick(const row *r, const kf_tensor *t, int64_t j) {
    kf_tensor outer = *t;
    outer.rank--;
    return at_row(r, &outer) + j * t->strides[outer.rank];
}

static inline void store_place(const kf_tensor *t, int64_t offset, int64_t place) {
    if (t->dtype == KF_INT32) ((int32_t *)t->data)[offset] = (int32_t)place;
    else ((int64_t *)t->data)[offset] = place;
}

static inline bool takes(const kf_tensor *x, const kf_tensor *weights, const kf_tensor *places) {
    return fits_float(x) && is_of_or_f32(weights, x->dtype) && is_of_places(places);
}

/* The picks of one row. */
static inline void write_picks(
    const row *r, const kf_tensor *weights, const kf_tensor *places, float greatest, float mass, float kept) {
    pick each = NONE;
    for (int64_t j = 0; j < weights->shape[weights->rank - 1]; j++) {
        each = next_pick(r->x, r, each);
        store(weights, at_pick(r, weights, j), expf(each.value - greatest) / mass / kept);
        store_place(places, at_pick(r, places, j), each.place);
    }
}

#endif
