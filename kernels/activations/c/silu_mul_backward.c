/* silu_mul_backward.c: dup = dy h and dgate = dy up s (1 + gate (1 - s)). */
#include "elementwise.h"

static void differentiate(const float *in, float *out) {
    const float gate = in[0], up = in[1], dy = in[2], s = 1.0f / (1.0f + expf(-gate));
    out[0] = dy * up * (s * (1.0f + gate * (1.0f - s)));
    out[1] = dy * (gate * s);
}

int kf_silu_mul_backward(const kf_silu_mul_backward_call *call) {
    const kf_tensor in[] = {call->gate, call->up, call->dy}, out[] = {call->dgate, call->dup};
    return over_elements(in, out, call->axis, differentiate);
}
