/* rope_backward.c: an element of the first half with its like of the second, turned back. */
#include "rope.h"

int kf_rope_backward(const kf_rope_backward_call *call) {
    return rotate(&call->dy, &call->cos, &call->sin, &call->dx, halves(&call->dy), -1.0f);
}
