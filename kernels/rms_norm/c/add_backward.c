/* add_backward.c: fused_add_rms_norm_backward: backward.c with the gradient of the residual sum. */
#define kf_rms_norm_backward plain_backward
#include "backward.c"
#undef kf_rms_norm_backward

int kf_fused_add_rms_norm_backward(const kf_fused_add_rms_norm_backward_call *call) {
    const gradient_call given = {
        .x = call->x, .dy = call->dy, .dsum = call->dsum, .weight = call->weight, .rstd = call->rstd,
        .dx = call->dx, .dresidual = call->dresidual, .dw = call->dw,
        .axis = call->axis, .eps = call->eps, .weight_offset = call->weight_offset,
    };
    return differentiate(&given);
}
