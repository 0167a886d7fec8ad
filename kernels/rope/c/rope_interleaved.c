/* rope_interleaved.c: an element at an even place with the one behind it. */
#include "rope.h"

int kf_rope_interleaved(const kf_rope_interleaved_call *call) {
    return rotate(&call->x, &call->cos, &call->sin, &call->y, neighbours(&call->x), 1.0f);
}
