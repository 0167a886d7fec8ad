/* gelu_tanh.c: by the hyperbolic tangent of the C library. */
#include "elementwise.h"

static void gelu(const float *in, float *out) {
    const float x = in[0], u = 0x1.988454p-1f * (x + 0.044715f * (x * x * x));
    *out = 0.5f * x * (1.0f + tanhf(u));
}

int kf_gelu_tanh(const kf_gelu_tanh_call *call) {
    const kf_tensor in[] = {call->x, {0}}, out[] = {call->y, {0}};
    return over_elements(in, out, call->axis, gelu);
}
