/* gelu_backward.c: dx = dy (cdf + x pdf). */
#include "elementwise.h"

static void differentiate(const float *in, float *out) {
    const float x = in[0], dy = in[1];
    const float cdf = 0.5f * (1.0f + erff(x * 0x1.6a09e6p-1f)), pdf = expf(x * x * -0.5f) * 0x1.988454p-2f;
    *out = dy * (cdf + x * pdf);
}

int kf_gelu_backward(const kf_gelu_backward_call *call) {
    const kf_tensor in[] = {call->x, call->dy, {0}}, out[] = {call->dx, {0}};
    return over_elements(in, out, call->axis, differentiate);
}
