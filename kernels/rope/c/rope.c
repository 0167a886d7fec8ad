/* rope.c: an element of the first half with its like of the second. */
#include "rope.h"

int kf_rope(const kf_rope_call *call) {
    return rotate(&call->x, &call->cos, &call->sin, &call->y, halves(&call->x), 1.0f);
}
