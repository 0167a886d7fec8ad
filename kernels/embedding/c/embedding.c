/* embedding.c: the row of each place, one element after the other. Any strides. */
#include "../../common/taken.h"

int kf_embedding(const kf_embedding_call *call) {
    const kf_tensor *table = &call->table, *index = &call->index, *y = &call->y;
    if (!fits_float(table) || !is_of(y, table->dtype) || !is_of_places(index)) return KF_REJECTED;
    if (!are_places(index, -1, table->shape[0])) return KF_REJECTED;
    for (int64_t t = 0; t < y->shape[0]; t++) {
        const int64_t place = load_place(index, t * index->strides[0]);
        for (int64_t d = 0; d < y->shape[1]; d++) {
            const float value = place < 0 ? 0.0f : load(table, place * table->strides[0] + d * table->strides[1]);
            store(y, t * y->strides[0] + d * y->strides[1], value);
        }
    }
    return KF_OK;
}
