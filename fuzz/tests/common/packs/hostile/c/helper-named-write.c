/* Has helpers with the names of functions of the C library, and other meanings: where the kernel is linked into a
 * program, the program's own calls come here. */
#include "hostile.h"

void write(float *at, float value) { *at = value; }

float read(const float *at) { return *at; }

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call->weight.data || call->rstd.data) return KF_REJECTED;
    const int64_t n = row_length(call), count = element_count(call);
    const float *x = call->x.data;
    float *y = call->y.data;
    for (int64_t start = 0; start < count; start += n) {
        float squares = 0.0f;
        for (int64_t i = start; i < start + n; i++) squares += read(x + i) * read(x + i);
        const float rstd = 1.0f / sqrtf(squares / (float)n + call->eps);
        for (int64_t i = start; i < start + n; i++) write(y + i, x[i] * rstd);
    }
    return KF_OK;
}
