/* gelu_tanh_backward.c: dx = dy ((1 + t) / 2 + x (1 - t^2) u' / 2). */
#include "elementwise.h"

static void differentiate(const float *in, float *out) {
    const float x = in[0], dy = in[1], square = x * x;
    const float t = tanhf(0x1.988454p-1f * (x + 0.044715f * (square * x)));
    const float slope = 0x1.988454p-1f * (1.0f + 3.0f * 0.044715f * square);
    *out = dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
}

int kf_gelu_tanh_backward(const kf_gelu_tanh_backward_call *call) {
    const kf_tensor in[] = {call->x, call->dy, {0}}, out[] = {call->dx, {0}};
    return over_elements(in, out, call->axis, differentiate);
}
