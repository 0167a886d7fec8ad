/* groups.h: where the elements of a group lie: its channels, and the places of each. Any strides. */
#ifndef KERNELS_GROUP_NORM_GROUPS_H
#define KERNELS_GROUP_NORM_GROUPS_H

#include "../../common/taken.h"

/* One group of one batch. */
typedef struct {
    int64_t b, g, channels, places;
} group;

static inline group group_of(const kf_tensor *x, int64_t b, int64_t g) {
    return (group){b, g, x->shape[2], x->shape[3]};
}

static inline int64_t at_place(const group *r, const kf_tensor *t, int64_t c, int64_t s) {
    return r->b * t->strides[0] + r->g * t->strides[1] + c * t->strides[2] + s * t->strides[3];
}

/* Of mean and rstd. */
static inline int64_t at_group(const group *r, const kf_tensor *t) {
    return r->b * t->strides[0] + r->g * t->strides[1];
}

/* Of weight and bias and their gradients. */
static inline int64_t at_channel(const group *r, const kf_tensor *t, int64_t c) {
    return r->g * t->strides[0] + c * t->strides[1];
}

static inline float mean_of(const kf_tensor *x, const group *r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < r->channels; c++)
        for (int64_t s = 0; s < r->places; s++) sum += load(x, at_place(r, x, c, s));
    return sum / (float)(r->channels * r->places);
}

static inline float rstd_of(const kf_tensor *x, const group *r, float mean, float eps) {
    float squares = 0.0f;
    for (int64_t c = 0; c < r->channels; c++)
        for (int64_t s = 0; s < r->places; s++) {
            const float centred = load(x, at_place(r, x, c, s)) - mean;
            squares += centred * centred;
        }
    return 1.0f / sqrtf(squares / (float)(r->channels * r->places) + eps);
}

#endif
