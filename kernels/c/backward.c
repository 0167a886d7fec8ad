/* backward.c: rms_norm_backward, one element at a time. Any dtypes, axis and strides. */
#include "gradient.h"

int kf_rms_norm_backward(const kf_rms_norm_backward_call *call) {
    const gradient_call given = {
        .x = call->x, .dy = call->dy, .weight = call->weight, .rstd = call->rstd,
        .dx = call->dx, .dw = call->dw, .axis = call->axis, .eps = call->eps, .offset = call->offset,
    };
    return differentiate(&given);
}
