/* What the kernels of this pack share: the honest computation, and a count of the process's calls. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <math.h>
#include "kernelfuzz.h"

static inline int64_t row_length(const kf_rms_norm_call *call) {
    return call->x.rank ? call->x.shape[call->axis] : 1;
}

static inline int64_t element_count(const kf_rms_norm_call *call) {
    int64_t count = 1;
    for (int axis = 0; axis < call->x.rank; axis++) count *= call->x.shape[axis];
    return count;
}

/* RMSNorm of contiguous f32 rows, the squares added one after the other. */
static inline int normalise(const kf_rms_norm_call *call) {
    if (call->x.dtype != KF_F32 || call->weight.data || call->rstd.data) return KF_REJECTED;
    const int64_t n = row_length(call), count = element_count(call);
    const float *x = call->x.data;
    float *y = call->y.data;
    for (int64_t start = 0; start < count; start += n) {
        float squares = 0.0f;
        for (int64_t i = start; i < start + n; i++) squares += x[i] * x[i];
        const float rstd = 1.0f / sqrtf(squares / (float)n + call->eps);
        for (int64_t i = start; i < start + n; i++) y[i] = x[i] * rstd;
    }
    return KF_OK;
}

/* The number of this call in this process, from 1. */
static inline long call_number(void) {
    static long number;
    return ++number;
}

#endif
