/* op_rms_norm.c: hands a case of the op rms_norm to the kernel. */
#include "worker.h"

const char op_name[] = "rms_norm";

int call_op(const test_case *c) {
    const kf_rms_norm_call call = {
        .x = described(c, "x", REQUIRED),
        .weight = described(c, "weight", OPTIONAL),
        .y = described(c, "y", REQUIRED),
        .rstd = described(c, "rstd", OPTIONAL),
        .axis = normalised_axis(c),
        .eps = real_param(c, "eps", REQUIRED),
        .offset = real_param(c, "offset", OPTIONAL),
    };
    return enter(kf_rms_norm, &call);
}
