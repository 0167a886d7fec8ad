/* call.c: what a case holds, as the ops' call structures want it. */
#include <string.h>

#include "worker.h"

/* The op's axis counted from the front; the last one where a case has no such parameter. */
int normalised_axis(const test_case *c) {
    const param *axis = find_param(c, "axis");
    const int given = axis != NULL ? (int)axis->value.integer : -1;
    return given < 0 ? given + c->tensors[0].record->rank : given;
}

/* An absent tensor has no data; an empty one has, although nothing may be read there. */
kf_tensor described(const test_case *c, const char *name, presence wanted) {
    for (int i = 0; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (strncmp(t->record->name, name, NAME_BYTES) != 0) continue;
        kf_tensor out = {
            .data = t->storage - t->lowest * (int64_t)t->itemsize,
            .dtype = (kf_dtype)t->record->dtype,
            .rank = t->record->rank,
        };
        memcpy(out.shape, t->record->shape, sizeof out.shape);
        memcpy(out.strides, t->record->strides, sizeof out.strides);
        return out;
    }
    if (wanted == REQUIRED) broken_frame("broken frame: a case of %s without tensor %s", op_name, name);
    return (kf_tensor){0};
}

/* A parameter as float; `absent` where the case does not have it. */
float real_param_or(const test_case *c, const char *name, float absent) {
    const param *found = find_param(c, name);
    if (found == NULL) return absent;
    return found->kind == PARAM_INTEGER ? (float)found->value.integer : (float)found->value.real;
}

float real_param(const test_case *c, const char *name) {
    if (find_param(c, name) == NULL) broken_frame("broken frame: a case of %s without parameter %s", op_name, name);
    return real_param_or(c, name, 0.0f);
}
