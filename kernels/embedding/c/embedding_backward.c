/* embedding_backward.c: for each row of the table, all rows of dy that are its. Any strides. */
#include "../../common/taken.h"

int kf_embedding_backward(const kf_embedding_backward_call *call) {
    const kf_tensor *collected = &call->collected, *dy = &call->dy, *index = &call->index, *dtable = &call->dtable;
    if (!fits_float(collected) || !is_of_or_f32(dy, collected->dtype) || !is_of(dtable, collected->dtype)) return KF_REJECTED;
    if (!is_of_places(index) || !are_places(index, -1, collected->shape[0])) return KF_REJECTED;
    for (int64_t v = 0; v < dtable->shape[0]; v++)
        for (int64_t d = 0; d < dtable->shape[1]; d++) {
            float sum = 0.0f;
            for (int64_t t = 0; t < dy->shape[0]; t++)
                if (load_place(index, t * index->strides[0]) == v) sum += load(dy, t * dy->strides[0] + d * dy->strides[1]);
            const float before = load(collected, v * collected->strides[0] + d * collected->strides[1]);
            store(dtable, v * dtable->strides[0] + d * dtable->strides[1], before + sum);
        }
    return KF_OK;
}
