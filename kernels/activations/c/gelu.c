/* gelu.c: by the error function of the C library. */
#include "elementwise.h"

static void gelu(const float *in, float *out) { *out = 0.5f * in[0] * (1.0f + erff(in[0] * 0x1.6a09e6p-1f)); }

int kf_gelu(const kf_gelu_call *call) {
    const kf_tensor in[] = {call->x, {0}}, out[] = {call->y, {0}};
    return over_elements(in, out, call->axis, gelu);
}
