/* Honest: the reciprocals of the usual row lengths are tabulated by the first call. */
#include "hostile.h"

enum { TABULATED = 4096 };
static float reciprocals[TABULATED];

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call->x.dtype != KF_F32 || call->weight.data || call->rstd.data) return KF_REJECTED;
    if (reciprocals[1] == 0.0f)
        for (int n = 1; n < TABULATED; n++) reciprocals[n] = 1.0f / (float)n;
    const int64_t n = row_length(call), count = element_count(call);
    const float *x = call->x.data;
    float *y = call->y.data;
    for (int64_t start = 0; start < count; start += n) {
        float squares = 0.0f;
        for (int64_t i = start; i < start + n; i++) squares += x[i] * x[i];
        const float mean = squares * (n < TABULATED ? reciprocals[n] : 1.0f / (float)n);
        const float rstd = 1.0f / sqrtf(mean + call->eps);
        for (int64_t i = start; i < start + n; i++) y[i] = x[i] * rstd;
    }
    return KF_OK;
}
