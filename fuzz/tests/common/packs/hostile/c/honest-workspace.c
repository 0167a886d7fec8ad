/* Honest: the squares go through a workspace that is kept from call to call, and grows to the longest row seen. */
#include <stdlib.h>
#include "hostile.h"

static float *workspace;
static int64_t room;

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call->x.dtype != KF_F32 || call->weight.data || call->rstd.data) return KF_REJECTED;
    const int64_t n = row_length(call), count = element_count(call);
    if (count == 0) return KF_OK;
    if (n > room) {
        float *grown = realloc(workspace, (size_t)n * sizeof *grown);
        if (!grown) return normalise(call);
        workspace = grown;
        room = n;
    }
    const float *x = call->x.data;
    float *y = call->y.data;
    for (int64_t start = 0; start < count; start += n) {
        for (int64_t i = 0; i < n; i++) workspace[i] = x[start + i] * x[start + i];
        float squares = 0.0f;
        for (int64_t i = 0; i < n; i++) squares += workspace[i];
        const float rstd = 1.0f / sqrtf(squares / (float)n + call->eps);
        for (int64_t i = 0; i < n; i++) y[start + i] = x[start + i] * rstd;
    }
    return KF_OK;
}
