/* op_fused_add_rms_norm_backward.c: hands a case of the op fused_add_rms_norm_backward to the kernel. */
#include "worker.h"

const char op_name[] = "fused_add_rms_norm_backward";

int call_op(const test_case *c) {
    const kf_fused_add_rms_norm_backward_call call = {
        .x = described(c, "x", REQUIRED),
        .dy = described(c, "dy", REQUIRED),
        .dsum = described(c, "dsum", OPTIONAL),
        .weight = described(c, "weight", OPTIONAL),
        .rstd = described(c, "rstd", OPTIONAL),
        .dx = described(c, "dx", REQUIRED),
        .dresidual = described(c, "dresidual", OPTIONAL),
        .dw = described(c, "dw", OPTIONAL),
        .axis = normalised_axis(c),
        .eps = real_param(c, "eps", REQUIRED),
        .offset = real_param(c, "offset", OPTIONAL),
    };
    return enter(kf_fused_add_rms_norm_backward, &call);
}
