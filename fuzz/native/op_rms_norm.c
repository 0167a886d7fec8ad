/* op_rms_norm.c: hands a case of the op rms_norm to the kernel. */
#include "worker.h"

const char op_name[] = "rms_norm";

int call_op(const test_case *c) {
    kf_rms_norm_call call;
    describe(require_tensor(c, "x"), &call.x);
    describe(require_tensor(c, "y"), &call.y);
    call.axis = (int)require_param(c, "axis")->value.integer;
    if (call.axis < 0) call.axis += call.x.rank;
    call.eps = (float)require_param(c, "eps")->value.real;
    return kf_rms_norm(&call);
}
