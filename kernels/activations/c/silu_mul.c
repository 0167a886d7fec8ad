/* silu_mul.c: gate / (1 + e^-gate), times up. */
#include "elementwise.h"

static void gated(const float *in, float *out) { *out = in[0] / (1.0f + expf(-in[0])) * in[1]; }

int kf_silu_mul(const kf_silu_mul_call *call) {
    const kf_tensor in[] = {call->gate, call->up, {0}}, out[] = {call->y, {0}};
    return over_elements(in, out, call->axis, gated);
}
