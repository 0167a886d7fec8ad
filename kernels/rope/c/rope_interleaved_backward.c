/* rope_interleaved_backward.c: an element at an even place with the one behind it, turned back. */
#include "rope.h"

int kf_rope_interleaved_backward(const kf_rope_interleaved_backward_call *call) {
    return rotate(&call->dy, &call->cos, &call->sin, &call->dx, neighbours(&call->dy), -1.0f);
}
